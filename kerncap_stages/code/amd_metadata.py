"""Reads the metadata note of code objects for AMD GPUs, and says in words what is wrong with it.

The note is MessagePack; LLVM's AMDGPU usage guide describes its layout.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn

import msgpack  # type: ignore[import-untyped]

from kerncap_stages.code.kernel_facts import KernelFacts
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests.kernel import KernargSlot, Registers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LARGEST = 2**63 - 1  # that a manifest takes
_VALUE_KIND = re.compile(r"[a-z][a-z0-9_]*")


def unpack_note(raw: bytes) -> dict[str, Any] | None:
    """Return what a note says; None if it is no map, and so no metadata of a code object.

    Raises ArtifactError if it is damaged.
    """
    try:
        note = msgpack.unpackb(raw, strict_map_key=False)
    except (ValueError, TypeError, OverflowError, msgpack.exceptions.UnpackException):
        _refuse("its metadata is not valid MessagePack")
    return note if isinstance(note, dict) else None


def read_kernels(
    note: Mapping[str, Any], preloads: Mapping[str, tuple[int, int]]
) -> Iterator[tuple[str, KernelFacts]]:
    """Yield the kernels of a note by their symbols.

    preloads: offset and length of the preloaded kernarg in dwords, by symbol.
    Raises ArtifactError if the note is damaged.
    """
    for kernel in _read_list(note, "amdhsa.kernels"):
        symbol = (_read_text(kernel, ".symbol") or _lack(".symbol")).removesuffix(".kd")
        yield symbol, _read_kernel(symbol, kernel, preloads.get(symbol, (0, 0)))


def _read_kernel(symbol: str, kernel: Mapping[str, Any], preload: tuple[int, int]) -> KernelFacts:
    return KernelFacts(
        symbol=symbol,
        slots=tuple(_read_slot(argument) for argument in _read_list(kernel, ".args")),
        kernarg_size_bytes=_read_number(kernel, ".kernarg_segment_size") or 0,
        kernarg_align_bytes=_read_number(kernel, ".kernarg_segment_align"),
        static_lds_bytes=_read_number(kernel, ".group_segment_fixed_size") or 0,
        scratch_bytes_per_work_item=_read_number(kernel, ".private_segment_fixed_size") or 0,
        uses_dynamic_stack=bool(kernel.get(".uses_dynamic_stack", False)),
        wavefront_size=_read_number(kernel, ".wavefront_size") or 64,
        registers=Registers(
            sgpr_count=_read_number(kernel, ".sgpr_count"),
            vgpr_count=_read_number(kernel, ".vgpr_count"),
            agpr_count=_read_number(kernel, ".agpr_count"),
            sgpr_spill_count=_read_number(kernel, ".sgpr_spill_count"),
            vgpr_spill_count=_read_number(kernel, ".vgpr_spill_count"),
        ),
        max_work_group_size=_read_number(kernel, ".max_flat_workgroup_size"),
        required_work_group_size=_read_shape(kernel, ".reqd_workgroup_size"),
        preload_offset_dwords=preload[0],
        preload_length_dwords=preload[1],
        language=_read_text(kernel, ".language"),
    )


def _read_slot(argument: Mapping[str, Any]) -> KernargSlot:
    offset_bytes, size_bytes = _read_number(argument, ".offset"), _read_number(argument, ".size")
    value_kind = _read_text(argument, ".value_kind") or _lack(".value_kind")
    if not _VALUE_KIND.fullmatch(value_kind):
        _refuse(".value_kind in its metadata is not a kind of argument")
    return KernargSlot(
        offset_bytes=_lack(".offset") if offset_bytes is None else offset_bytes,
        size_bytes=_lack(".size") if size_bytes is None else size_bytes,
        value_kind=value_kind,
        name=_read_text(argument, ".name"),
        type_name=_read_text(argument, ".type_name"),
        address_space=_read_text(argument, ".address_space"),
        access=_read_text(argument, ".actual_access") or _read_text(argument, ".access"),
        pointee_align_bytes=_read_number(argument, ".pointee_align"),
        is_const=bool(argument.get(".is_const", False)),
        is_restrict=bool(argument.get(".is_restrict", False)),
        is_volatile=bool(argument.get(".is_volatile", False)),
    )


def _read_number(values: Mapping[str, Any], key: str) -> int | None:
    value = values.get(key)
    return None if value is None else _convert_number(value, key)


def _convert_number(value: Any, key: str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        _refuse(f"{key} in its metadata is not a number")
    if not 0 <= number <= _LARGEST:
        _refuse(f"{key} in its metadata is {number}, which is out of range")
    return number


def _read_text(values: Mapping[str, Any], key: str) -> str | None:
    value = values.get(key)
    if value is not None and not isinstance(value, str):
        _refuse(f"{key} in its metadata is not a string")
    return value


def _read_list(values: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = values.get(key, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        _refuse(f"{key} in its metadata is not a list of maps")
    return found


def _read_shape(values: Mapping[str, Any], key: str) -> tuple[int, int, int] | None:
    found = values.get(key)
    if not found:
        return None
    if not isinstance(found, list) or len(found) < 3:
        _refuse(f"{key} in its metadata is not a list of three numbers")
    x, y, z = (_convert_number(each, key) for each in found[:3])
    return x, y, z


def _lack(key: str) -> NoReturn:
    _refuse(f"its metadata lacks {key}")


def _refuse(what: str) -> NoReturn:
    raise ArtifactError(f"damaged code object: {what}", hint="compile it again")
