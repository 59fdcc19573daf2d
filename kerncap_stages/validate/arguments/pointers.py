"""Finds the pointers among a kernel's arguments, and with them the types of the kernel's outputs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kerncap_stages.code.element_types import find_pointee, is_pointer_to_const
from kerncap_stages.code.structs import Types
from kerncap_stages.locate.argument_layouts import (
    find_argument_types,
    is_known,
    list_explicit_slots,
    read_held_addresses,
)
from kerncap_stages.validate.arguments.parts import Pointer
from kerncap_stages.validate.arguments.triton_pointers import find_triton_pointers
from kerncap_stages.validate.arguments.values import ADDRESS_BYTES, read_address, read_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kerncap_stages.manifests import ReadsObjects
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.kernel import KernargSlot
    from kerncap_stages.manifests.source import HeldAddress, Source


def find_pointers(store: ReadsObjects, capture: Capture, source: Source | None) -> tuple[Pointer, ...]:
    """Return all pointers in the explicit arguments, with the types of their elements.

    Types come from the kernel's symbol, in which templates and aliases are resolved. Names, layouts of
    structs, and types of ``extern "C"`` kernels come from the source. The rest comes from debug information:
    of the captured code, or of code that kc-locate compiled. Triton's signature tells all of a Triton kernel.
    """
    if capture.kernel.triton is not None:
        return find_triton_pointers(capture, capture.kernel.triton)
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
        pointers = _make_held_pointers(capture, slot, held) or _find_slot_pointers(
            capture, slot, type_text, name, types
        )
        found += (replace(each, argument=i) for each in pointers)
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
    value = read_value(capture, slot)
    return [
        Pointer(
            f"{each.name} ({each.type_name})",
            read_address(value, each.offset_bytes),
            each.element_type,
            # A member of a struct counts as written, as it does if the source tells the struct's layout.
            is_const="." not in each.name and is_pointer_to_const(each.type_name),
        )
        for each in held
        if each.offset_bytes + ADDRESS_BYTES <= slot.size_bytes
    ]


def _find_slot_pointers(
    capture: Capture, slot: KernargSlot, type_text: str, name: str, types: Types
) -> Iterator[Pointer]:
    value = read_value(capture, slot)
    target = find_pointee(type_text)
    if target is not None and slot.size_bytes == ADDRESS_BYTES:
        kind = types.find_element_type(target)
        yield Pointer(f"{name} ({type_text})", read_address(value), kind, is_pointer_to_const(type_text))
        return
    if slot.value_kind != "by_value" and slot.size_bytes == ADDRESS_BYTES:
        yield Pointer(name, read_address(value), None, slot.is_const)
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
                read_address(value, field.offset_bytes),
                types.find_element_type(target),
                is_const=False,
            )


def _read_texts(store: ReadsObjects, source: Source | None) -> Iterator[bytes]:
    for file in source.files if source is not None else ():
        yield store.get(file.payload.digest)
