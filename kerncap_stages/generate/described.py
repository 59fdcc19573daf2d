"""The files in ``capture/`` that describe the dispatch, for people and scripts.

Names of files and fields are those that users of kerncap know; a grid is in work-items. Contents of memory
are in the project's store, and what refers to them gives their names there.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kerncap_stages.manifests.kernel import CodeObjectFormat
from kerncap_stages.manifests.memory import MemoryKind

if TYPE_CHECKING:
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.kernel import Kernel
    from kerncap_stages.manifests.memory import Region

_KERNARG_RAW = "kernarg_raw.bin"  # what `kernarg_raw` names; kernarg.bin has the same bytes


def described_files(capture: Capture, folder: str) -> dict[str, bytes]:
    """Every file that describes a capture, by its path in the project; the code object is not among them."""
    return {
        f"{folder}/dispatch.json": dispatch_json(capture),
        f"{folder}/metadata.json": metadata_json(capture),
        f"{folder}/memory_regions.json": memory_regions_json(capture),
        f"{folder}/module_variables.json": module_variables_json(capture),
        f"{folder}/kernarg.bin": bytes.fromhex(capture.kernarg),
        f"{folder}/{_KERNARG_RAW}": bytes.fromhex(capture.kernarg),
    }


def dispatch_json(capture: Capture) -> bytes:
    """How the kernel was launched."""
    kernel, launch = capture.kernel, capture.launch
    device = capture.device
    return _json(
        {
            "mangled_name": _symbol(kernel),
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


def metadata_json(capture: Capture) -> bytes:
    """What the kernel is, with the values of its arguments."""
    kernel, launch = capture.kernel, capture.launch
    device = capture.device
    return _json(
        {
            "kernel_name": kernel.demangled_name,
            "kernel_symbol": _symbol(kernel),
            "gpu_arch": device.architecture,
            "grid": dict(zip("xyz", launch.grid_work_items, strict=True)),
            "grid_blocks": dict(zip("xyz", launch.grid_blocks, strict=True)),
            "block": dict(zip("xyz", launch.block_work_items, strict=True)),
            "lds_size": launch.static_lds_bytes + launch.dynamic_lds_bytes,
            "kernarg_slots": [_slot(slot.model_dump(mode="json"), capture.kernarg) for slot in kernel.slots],
            "kernarg_segment_size_meta": kernel.kernarg_size_bytes,
            "sgpr_count": kernel.registers.sgpr_count,
            "vgpr_count": kernel.registers.vgpr_count,
            "hsaco_sha256": kernel.code_digest,
            "kernarg_raw": _KERNARG_RAW,
            "regions": [
                {**_region(region), "written_bytes": region.written_size_bytes} for region in capture.regions
            ],
            **_triton(capture),
        }
    )


def memory_regions_json(capture: Capture) -> bytes:
    """What memory was taken; ``pre`` and ``post`` name its contents in the store (``kc-store cat``)."""
    return _json(
        {
            "regions": [
                {
                    **_region(region),
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


def module_variables_json(capture: Capture) -> bytes:
    """Variables of loaded code objects; ``blob`` names the contents in the store (``kc-store cat``)."""
    return _json(
        {
            "variables": [
                {
                    "executable_sha256": variable.code_object,
                    "name": variable.symbol,
                    "size": variable.size_bytes,
                    "blob": variable.pre,
                }
                for variable in capture.module_variables
            ]
        }
    )


def _symbol(kernel: Kernel) -> str:
    """The symbol by which the runtime finds the kernel: on AMD that of its descriptor."""
    is_amd = kernel.code_object.format is CodeObjectFormat.ELF_AMDGPU
    return f"{kernel.mangled_name}.kd" if is_amd else kernel.mangled_name


def _region(region: Region) -> dict[str, Any]:
    return {
        "base": region.base_address,
        "size": region.size_bytes,
        "kind": region.kind.value,
        "device": region.device_index,
    }


def _contains(region: Region, address: int | None) -> bool:
    return address is not None and region.contains(address)


def _triton(capture: Capture) -> dict[str, Any]:
    triton = capture.kernel.triton
    if triton is None:
        return {}
    return {
        "triton_user_name": triton.function_name,
        "constexpr_values": {value.name: value.text for value in triton.constexprs},
    }


def _slot(slot: dict[str, Any], kernarg: str) -> dict[str, Any]:
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


def _json(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
