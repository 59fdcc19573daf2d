"""Describes the launch of a captured dispatch from the capture library's message, for each back end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.collect.protocol import CaptureFlag
from kerncap_stages.collect.wire import ProtocolError
from kerncap_stages.manifests.kernel import (
    LAUNCH_ATTRIBUTES,
    CodeObjectFormat,
    Language,
    Launch,
    count_blocks,
)

if TYPE_CHECKING:
    from kerncap_stages.code.kernel_facts import KernelFacts
    from kerncap_stages.collect.protocol import Capture
    from kerncap_stages.manifests.base import Dim3


def describe_launch(sent: Capture, facts: KernelFacts, code_format: CodeObjectFormat) -> Launch:
    """Describe a launch for a manifest."""
    if code_format is CodeObjectFormat.ELF_AMDGPU:
        return Launch(
            grid_work_items=sent.grid_work_items,
            grid_blocks=count_blocks(sent.grid_work_items, sent.block_work_items),
            block_work_items=sent.block_work_items,
            static_lds_bytes=facts.static_lds_bytes,
            dynamic_lds_bytes=max(0, sent.group_bytes - facts.static_lds_bytes),
            private_segment_bytes=sent.private_bytes,
            is_cooperative=bool(sent.flags & CaptureFlag.COOPERATIVE),
            aql_packet=sent.packet.hex(),
        )
    values = _parse_lines(sent.packet)
    cluster = values.get("cluster")
    return Launch(
        grid_work_items=sent.grid_work_items,
        grid_blocks=count_blocks(sent.grid_work_items, sent.block_work_items),
        block_work_items=sent.block_work_items,
        static_lds_bytes=int(values.get("static_shared", facts.static_lds_bytes)),
        dynamic_lds_bytes=sent.group_bytes,
        private_segment_bytes=int(values.get("local", sent.private_bytes)),
        cluster_blocks=None if cluster is None else _parse_dim3(cluster),
        is_cooperative=bool(sent.flags & CaptureFlag.COOPERATIVE),
        attributes={key: value for key, value in values.items() if key not in ("cluster", "dynamic_shared")},
    )


def _parse_lines(packet: bytes) -> dict[str, str]:
    values: dict[str, str] = {}
    for line in packet.decode(errors="replace").splitlines():
        key, found, value = line.partition("=")
        if not found:
            raise ProtocolError(f"the capture library describes a launch by an unknown line: {line}")
        if key == "attribute":
            number, _, value = value.partition(":")
            key = LAUNCH_ATTRIBUTES.get(int(number), f"launch_attribute_{number}")
        values[key] = value
    return values


def _parse_dim3(text: str) -> Dim3:
    x, y, z = (int(part) for part in text.split(","))
    return (x, y, z)


def guess_language(code_format: CodeObjectFormat, mangled: str) -> Language:
    """Guess the source language from the kernel's name: only C++ compilers mangle names."""
    if not mangled.startswith("_Z"):
        return Language.UNKNOWN
    return Language.HIP if code_format is CodeObjectFormat.ELF_AMDGPU else Language.CUDA_CPP
