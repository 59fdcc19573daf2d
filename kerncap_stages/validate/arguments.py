"""Finds the pointers among a kernel's arguments, and with them the types of the kernel's outputs.

A rebuilt code object is loaded elsewhere, so addresses of functions and of virtual function tables that a
kernel stores differ, even if the kernel is right. Addresses on the device's heap differ in each run. Outputs
with these addresses cannot be equal, and ``explain_addresses`` tells the user so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.code.element_types import find_pointee, is_pointer_to_const
from kerncap_stages.code.structs import Types, find_size
from kerncap_stages.locate.argument_layouts import (
    find_argument_types,
    is_known,
    list_explicit_slots,
    read_held_addresses,
)
from kerncap_stages.manifests.memory import MemoryKind
from kerncap_stages.replay.variant import uses_heap
from kerncap_stages.store.chunks import read_differing_chunks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests import ReadsObjects
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.kernel import KernargSlot
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.manifests.source import HeldAddress, Source

_WORD_BYTES = 8  # size of an address


@dataclass(frozen=True)
class Pointer:
    """An argument, or a member of one, that holds an address."""

    label: str  # for people: `result (float*)`
    address: int
    element_type: str | None
    is_const: bool


@dataclass(frozen=True)
class Span:
    """A part of a region whose elements have one type; ``element_type`` is None if it is not known."""

    start: int
    end: int
    element_type: str | None
    label: str = ""


def find_pointers(store: ReadsObjects, capture: Capture, source: Source | None) -> tuple[Pointer, ...]:
    """Return all pointers in the explicit arguments, with the types of their elements.

    Types come from the kernel's symbol, in which templates and aliases are resolved. Names, layouts of
    structs, and types of ``extern "C"`` kernels come from the source. The rest comes from debug information:
    of the captured code, or of code that kc-locate compiled.
    """
    explicit = list_explicit_slots(capture.kernel)
    written = source.definition.parameters if source is not None and source.definition is not None else ()
    names = [parameter.name for parameter in written] if len(written) == len(explicit) else []
    declared = find_argument_types(capture.kernel, [parameter.type_name for parameter in written])
    types = Types(_read_texts(store, source))
    by_argument: Mapping[int, Sequence[HeldAddress]] | None = None
    found: list[Pointer] = []
    for i, (slot, type_text) in enumerate(zip(explicit, declared, strict=True)):
        name = slot.name or (names[i] if names else "") or f"argument {i}"
        held: Sequence[HeldAddress] = ()
        if not is_known(slot, type_text, types):
            if by_argument is None:
                by_argument = _group_held_addresses(store, capture, source)
            held = by_argument.get(i, ())
        found += _make_held_pointers(capture, slot, held) or _find_slot_pointers(
            capture, slot, type_text, name, types
        )
    return tuple(found)


def _group_held_addresses(
    store: ReadsObjects, capture: Capture, source: Source | None
) -> Mapping[int, Sequence[HeldAddress]]:
    """Return addresses in arguments that debug information tells, by the number of the argument."""
    kernel = capture.kernel
    by_argument: dict[int, list[HeldAddress]] = {}
    for each in source.held_addresses if source is not None else ():
        by_argument.setdefault(each.argument, []).append(each)
    code = store.get(kernel.code_digest)
    return {**by_argument, **read_held_addresses(code, kernel, kernel.mangled_name)}


def _make_held_pointers(capture: Capture, slot: KernargSlot, held: Sequence[HeldAddress]) -> list[Pointer]:
    value = _read_value(capture, slot)
    return [
        Pointer(
            f"{each.name} ({each.type_name})",
            _read_address(value, each.offset_bytes),
            each.element_type,
            # A member of a struct counts as written, as it does if the source tells the struct's layout.
            is_const="." not in each.name and is_pointer_to_const(each.type_name),
        )
        for each in held
        if each.offset_bytes + _WORD_BYTES <= slot.size_bytes
    ]


def cut_region(region: Region, leading: Sequence[Pointer]) -> tuple[Span, ...]:
    """Cut a region into parts at the addresses that arguments point to.

    If all pointers have the same type, the whole region is one part.
    """
    inside: dict[int, list[Pointer]] = {}
    for pointer in leading:
        offset = pointer.address - region.base_address
        if 0 <= offset < region.size_bytes:
            inside.setdefault(offset, []).append(pointer)
    if not inside:
        return (Span(0, region.size_bytes, None),)
    starts = sorted(inside)
    kinds = {offset: _find_common_type(inside[offset], offset) for offset in starts}
    if len(set(kinds.values())) == 1:
        labels = ", ".join(dict.fromkeys(pointer.label for offset in starts for pointer in inside[offset]))
        return (Span(0, region.size_bytes, kinds[starts[0]], labels),)
    cut = [Span(0, starts[0], None)] if starts[0] else []
    for start, end in zip(starts, [*starts[1:], region.size_bytes], strict=True):
        cut.append(Span(start, end, kinds[start], ", ".join(pointer.label for pointer in inside[start])))
    return tuple(cut)


def _find_common_type(leading: Sequence[Pointer], offset: int) -> str | None:
    kinds = {pointer.element_type for pointer in leading}
    kind = kinds.pop() if len(kinds) == 1 else None
    return kind if kind is None or offset % find_size(kind) == 0 else None


def _find_slot_pointers(
    capture: Capture, slot: KernargSlot, type_text: str, name: str, types: Types
) -> Iterator[Pointer]:
    value = _read_value(capture, slot)
    target = find_pointee(type_text)
    if target is not None and slot.size_bytes == _WORD_BYTES:
        kind = types.find_element_type(target)
        yield Pointer(f"{name} ({type_text})", _read_address(value, 0), kind, is_pointer_to_const(type_text))
        return
    if slot.value_kind != "by_value" and slot.size_bytes == _WORD_BYTES:
        yield Pointer(name, _read_address(value, 0), None, slot.is_const)
        return
    layout = types.find_layout(type_text)
    if layout is None or layout.size_bytes != slot.size_bytes:
        return
    for field in layout.fields:
        target = find_pointee(field.type_name)
        if target is not None:
            label = f"{name}.{field.name} ({field.type_name})"
            yield Pointer(
                label,
                _read_address(value, field.offset_bytes),
                types.find_element_type(target),
                is_const=False,
            )


def _read_value(capture: Capture, slot: KernargSlot) -> bytes:
    start = slot.offset_bytes
    return bytes.fromhex(capture.kernarg[2 * start : 2 * (start + slot.size_bytes)])


def _read_address(value: bytes, offset: int) -> int:
    return int.from_bytes(value[offset : offset + _WORD_BYTES], "little")


def _read_texts(store: ReadsObjects, source: Source | None) -> list[bytes]:
    return [store.get(file.payload.digest) for file in source.files] if source is not None else []


def explain_addresses(
    store: ReadsObjects,
    capture: Capture,
    leading: Sequence[Pointer],
    expected: MemoryRef,
    actual: MemoryRef,
    window: tuple[int, int],
) -> str | None:
    """Return a note if an output differs in addresses that differ for any rebuilt kernel; None otherwise.

    leading: the kernel's arguments that are pointers. window: the part of the region, in bytes from its base.
    """
    code = [region for region in capture.regions if region.kind is MemoryKind.CODE_OBJECT]
    heap = [
        region
        for region in capture.regions
        if uses_heap(capture.kernel.slots) and _is_unreferenced(region, leading)
    ]
    differing, *found = _count_differing_words(store, expected, actual, window, [code, heap])
    for count, what in zip(
        found,
        (
            "of functions or tables in the captured code object: a rebuilt code object is loaded elsewhere",
            "on the device's heap: each run gets other memory",
        ),
        strict=True,
    ):
        if count:
            how_many = "all" if count == differing else f"{count} of"
            return f"{how_many} {differing} words that differ hold addresses {what}"
    return None


def _is_unreferenced(region: Region, leading: Sequence[Pointer]) -> bool:
    is_device = region.kind is not MemoryKind.CODE_OBJECT and region.device_index is not None
    return is_device and not any(region.contains(pointer.address) for pointer in leading)


def _count_differing_words(
    store: ReadsObjects,
    expected: MemoryRef,
    actual: MemoryRef,
    window: tuple[int, int],
    kinds: Sequence[Sequence[Region]],
) -> list[int]:
    """Count the aligned words that differ, and of these those that should point into each kind of region."""
    counts = [0] * (1 + len(kinds))
    for offset, chunks in read_differing_chunks(store, expected, actual):
        first = max(0, -(-(window[0] - offset) // _WORD_BYTES) * _WORD_BYTES)
        last = min(chunks[0].size, window[1] - offset) // _WORD_BYTES * _WORD_BYTES
        if first >= last:
            continue
        wanted, got = (chunk[first:last].view(np.uint64) for chunk in chunks)
        wanted = wanted[wanted != got]
        counts[0] += wanted.size
        for number, regions in enumerate(kinds, 1):
            inside = np.zeros(wanted.size, np.bool_)
            for region in regions:
                inside |= (wanted >= region.base_address) & (wanted < region.end_address)
            counts[number] += int(inside.sum())
    return counts
