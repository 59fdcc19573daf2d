"""Makes the files in ``capture/`` that describe the dispatch for users and scripts.

Files and fields have the names of kerncap's; a grid is in work-items. The contents of memory are in the
project's store; the files refer to them by digest. Variables of the kernel's code object are small as a rule:
each also has a file with its contents.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from kerncap_stages.generate.triton_names import make_constants
from kerncap_stages.manifests.kernel import CodeObjectFormat
from kerncap_stages.manifests.memory import MemoryKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.kernel import Kernel
    from kerncap_stages.manifests.memory import Region

# The contents of a variable that is larger are in the project's store alone.
MAX_VARIABLE_BYTES = 16 << 20
_MAX_SYMBOL = 200  # a file's name has at most 255 bytes
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_KERNARG_RAW = "kernarg_raw.bin"  # the field `kernarg_raw` names this file; kernarg.bin has the same bytes


def describe_capture(
    capture: Capture, folder: str, contents: Mapping[Digest, bytes] | None = None
) -> dict[str, bytes]:
    """Make all files that describe a capture, by path in the project; the code object is not one of them.

    contents: bytes of variables, by the digest of their memory; a variable without contents gets no file.
    """
    contents = contents or {}
    copies = _name_copies(capture, contents)
    return {
        f"{folder}/dispatch.json": make_dispatch_json(capture),
        f"{folder}/metadata.json": make_metadata_json(capture),
        f"{folder}/memory_regions.json": make_memory_regions_json(capture),
        f"{folder}/module_variables.json": make_module_variables_json(capture, copies),
        f"{folder}/kernarg.bin": bytes.fromhex(capture.kernarg),
        f"{folder}/{_KERNARG_RAW}": bytes.fromhex(capture.kernarg),
        **{f"{folder}/{name}": contents[digest] for name, digest in copies.values()},
    }


def make_dispatch_json(capture: Capture) -> bytes:
    """Describe how the kernel was launched."""
    kernel, launch = capture.kernel, capture.launch
    device = capture.device
    return _dump_json(
        {
            "mangled_name": _find_symbol(kernel),
            "demangled_name": kernel.demangled_name,
            "agent_name": device.name,
            "isa_name": kernel.code_object.isa,
            "wavefront_size": kernel.wavefront_size,
            "grid": list(launch.grid_work_items),
            "block": list(launch.block_work_items),
            "group_segment_size": launch.static_lds_bytes + launch.dynamic_lds_bytes,
            "private_segment_size": launch.private_segment_bytes,
            "kernarg_size": len(capture.kernarg) // 2,
            "dispatch_index": capture.dispatch.index_of_kernel,
        }
    )


def make_metadata_json(capture: Capture) -> bytes:
    """Describe the kernel and the values of its arguments."""
    kernel, launch = capture.kernel, capture.launch
    device = capture.device
    return _dump_json(
        {
            "kernel_name": kernel.demangled_name,
            "kernel_symbol": _find_symbol(kernel),
            "gpu_arch": device.architecture,
            "grid": dict(zip("xyz", launch.grid_work_items, strict=True)),
            "grid_blocks": dict(zip("xyz", launch.grid_blocks, strict=True)),
            "block": dict(zip("xyz", launch.block_work_items, strict=True)),
            "lds_size": launch.static_lds_bytes + launch.dynamic_lds_bytes,
            "kernarg_slots": [
                _describe_slot(slot.model_dump(mode="json"), capture.kernarg) for slot in kernel.slots
            ],
            "kernarg_segment_size_meta": kernel.kernarg_size_bytes,
            "sgpr_count": kernel.registers.sgpr_count,
            "vgpr_count": kernel.registers.vgpr_count,
            "hsaco_sha256": kernel.code_digest,
            "kernarg_raw": _KERNARG_RAW,
            "regions": [
                {**_describe_region(region), "written_bytes": region.written_size_bytes}
                for region in capture.regions
            ],
            **_describe_triton(capture),
        }
    )


def make_memory_regions_json(capture: Capture) -> bytes:
    """Describe the captured memory; ``pre`` and ``post`` name contents in the store (``kc-store cat``)."""
    return _dump_json(
        {
            "regions": [
                {
                    **_describe_region(region),
                    "is_pool": region.kind not in (MemoryKind.VMEM, MemoryKind.MANAGED),
                    "is_vmem": region.kind is MemoryKind.VMEM,
                    "contains_kernarg": _contains(region, capture.kernarg_address),
                    "pre": region.pre,
                    "post": region.post,
                }
                for region in capture.regions
            ]
        }
    )


def make_module_variables_json(capture: Capture, copies: Mapping[int, tuple[str, Digest]]) -> bytes:
    """Describe variables of the code object.

    ``blob`` is the file with the contents before the dispatch, beside this one. Of a variable without a file
    it names the contents in the store (``kc-store cat``).
    copies: each variable's file, by the variable's position.
    """
    return _dump_json(
        {
            "variables": [
                {
                    "executable_sha256": variable.code_object,
                    "name": variable.symbol,
                    "size": variable.size_bytes,
                    "blob": copies[at][0] if at in copies else variable.pre,
                }
                for at, variable in enumerate(capture.module_variables)
            ]
        }
    )


def _name_copies(capture: Capture, contents: Mapping[Digest, bytes]) -> dict[int, tuple[str, Digest]]:
    """Name a file for each variable whose contents are known, as kerncap does; no two share one."""
    copies: dict[int, tuple[str, Digest]] = {}
    taken: set[str] = set()
    for at, variable in enumerate(capture.module_variables):
        if variable.pre is None or variable.pre.digest not in contents:
            continue
        stem = f"{variable.code_object[:16]}_{_UNSAFE.sub('_', variable.symbol)[:_MAX_SYMBOL]}"
        name, count = stem, 1
        while name in taken:
            count += 1
            name = f"{stem}-{count}"
        taken.add(name)
        copies[at] = f"module_variables/{name}.bin", variable.pre.digest
    return copies


def _find_symbol(kernel: Kernel) -> str:
    """Return the symbol by which the runtime finds the kernel: on AMD, that of its descriptor."""
    is_amd = kernel.code_object.format is CodeObjectFormat.ELF_AMDGPU
    return f"{kernel.mangled_name}.kd" if is_amd else kernel.mangled_name


def _describe_region(region: Region) -> dict[str, Any]:
    return {
        "base": region.base_address,
        "size": region.size_bytes,
        "kind": region.kind.value,
        "device": region.device_index,
    }


def _contains(region: Region, address: int | None) -> bool:
    return address is not None and region.contains(address)


def _describe_triton(capture: Capture) -> dict[str, Any]:
    triton = capture.kernel.triton
    if triton is None:
        return {}
    return {
        "triton_user_name": triton.function_name,
        "constexpr_values": make_constants(triton),
    }


def _describe_slot(slot: dict[str, Any], kernarg: str) -> dict[str, Any]:
    start = slot["offset_bytes"]
    value = kernarg[2 * start : 2 * (start + slot["size_bytes"])]
    return {
        "offset": start,
        "size": slot["size_bytes"],
        "value_kind": slot["value_kind"],
        "value_type": slot["type_name"] or "",
        "address_space": slot["address_space"] or "",
        "name": slot["name"] or "",
        "value_hex": value,
    }


def _dump_json(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
