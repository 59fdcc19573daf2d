"""Which numbers a kernel's outputs are, from the types of the arguments that lead to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.source.element_types import is_pointer_to_const, pointee
from kerncap_stages.source.kernel_names import parse_kernel_name
from kerncap_stages.source.structs import Types, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.codec import ReadsObjects
    from kerncap_stages.manifests.kernel import KernargSlot
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.manifests.source import Source

_POINTER_BYTES = 8


@dataclass(frozen=True)
class Pointer:
    """An argument, or a member of one, that holds an address."""

    label: str  # for people: `result (float*)`
    address: int
    element_type: str | None
    is_const: bool


@dataclass(frozen=True)
class Span:
    """A part of a region whose elements are of one type; ``element_type`` is None where it is not known."""

    start: int
    end: int
    element_type: str | None
    label: str = ""


def pointers(store: ReadsObjects, capture: Capture, source: Source | None) -> tuple[Pointer, ...]:
    """Every explicit argument that holds an address, with what its type says.

    Types come from the kernel's symbol, which spells them after templates and aliases were resolved; where it
    has none (``extern "C"``), and for names and structs, from the source.
    """
    explicit = [slot for slot in capture.kernel.slots if not slot.is_hidden]
    written = source.definition.parameters if source is not None and source.definition is not None else ()
    mangled = parse_kernel_name(capture.kernel.demangled_name).parameters
    if len(mangled) != len(explicit):
        mangled = ()
    names = [parameter.name for parameter in written] if len(written) == len(explicit) else []
    declared = mangled or tuple(parameter.type_name for parameter in written)
    if len(declared) != len(explicit):
        declared = ("",) * len(explicit)
    types = Types(_texts(store, source))
    found: list[Pointer] = []
    for i, (slot, type_text) in enumerate(zip(explicit, declared, strict=True)):
        name = slot.name or (names[i] if names else "") or f"argument {i}"
        found += _slot_pointers(capture, slot, type_text, name, types)
    return tuple(found)


def spans(region: Region, leading: Sequence[Pointer]) -> tuple[Span, ...]:
    """Cut a region where arguments point into it; what lies before the first one is its own, if all agree."""
    inside: dict[int, list[Pointer]] = {}
    for pointer in leading:
        offset = pointer.address - region.base_address
        if 0 <= offset < region.size_bytes:
            inside.setdefault(offset, []).append(pointer)
    if not inside:
        return (Span(0, region.size_bytes, None),)
    starts = sorted(inside)
    kinds = {offset: _agreed(inside[offset], offset) for offset in starts}
    if len(set(kinds.values())) == 1:
        labels = ", ".join(dict.fromkeys(pointer.label for offset in starts for pointer in inside[offset]))
        return (Span(0, region.size_bytes, kinds[starts[0]], labels),)
    cut = [Span(0, starts[0], None)] if starts[0] else []
    for start, end in zip(starts, [*starts[1:], region.size_bytes], strict=True):
        cut.append(Span(start, end, kinds[start], ", ".join(pointer.label for pointer in inside[start])))
    return tuple(cut)


def _agreed(leading: Sequence[Pointer], offset: int) -> str | None:
    kinds = {pointer.element_type for pointer in leading}
    kind = kinds.pop() if len(kinds) == 1 else None
    return kind if kind is None or offset % size_of(kind) == 0 else None


def _slot_pointers(
    capture: Capture, slot: KernargSlot, type_text: str, name: str, types: Types
) -> Iterator[Pointer]:
    start = slot.offset_bytes
    value = bytes.fromhex(capture.kernarg[2 * start : 2 * (start + slot.size_bytes)])
    target = pointee(type_text)
    if target is not None and slot.size_bytes == _POINTER_BYTES:
        kind = types.element_type(target)
        yield Pointer(f"{name} ({type_text})", _address(value, 0), kind, is_pointer_to_const(type_text))
        return
    if slot.value_kind != "by_value" and slot.size_bytes == _POINTER_BYTES:
        yield Pointer(name, _address(value, 0), None, slot.is_const)
        return
    layout = types.layout(type_text)
    if layout is None or layout.size_bytes != slot.size_bytes:
        return
    for field in layout.fields:
        target = pointee(field.type_name)
        if target is not None:
            label = f"{name}.{field.name} ({field.type_name})"
            yield Pointer(
                label, _address(value, field.offset_bytes), types.element_type(target), is_const=False
            )


def _address(value: bytes, offset: int) -> int:
    return int.from_bytes(value[offset : offset + _POINTER_BYTES], "little")


def _texts(store: ReadsObjects, source: Source | None) -> list[bytes]:
    return [store.get(file.payload.digest) for file in source.files] if source is not None else []
