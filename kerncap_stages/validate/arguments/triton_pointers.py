"""Finds the pointers among the arguments of a Triton kernel: Triton's signature has their names and types."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerncap_stages.locate.argument_layouts import list_explicit_slots
from kerncap_stages.text.triton_types import read_types
from kerncap_stages.validate.arguments.parts import Pointer
from kerncap_stages.validate.arguments.values import ADDRESS_BYTES, read_address, read_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.triton import TritonKernel

_POINTER = re.compile(r"\*(k?)(\w+)")
_DESCRIPTOR = re.compile(r"tensordesc\w*<([a-z]+\d+\w*)")
# `ElementType`'s names by Triton's. i1 is a byte in memory; fp8e4b15 is a type of Triton's own.
_ELEMENTS = {
    **{name: name for name in ("bf16", "fp16", "fp32", "fp64")},
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    "i1": "uint8",
    "u1": "uint8",
    "fp8e4nv": "fp8_e4m3",
    "fp8e5": "fp8_e5m2",
    "fp8e4b8": "fp8_e4m3_fnuz",
    "fp8e5b16": "fp8_e5m2_fnuz",
}


def find_triton_pointers(capture: Capture, triton: TritonKernel) -> tuple[Pointer, ...]:
    """Return all pointers in the explicit arguments, with the types of their elements.

    A descriptor becomes several arguments. After one, arguments are known by the addresses that the call
    passed, if it was recorded.
    """
    given = _list_arguments(triton)
    count = next((i for i, (_, kind) in enumerate(given) if not _is_one_argument(kind)), len(given))
    explicit = list_explicit_slots(capture.kernel)
    if count > len(explicit):
        count = 0  # another version of Triton passes them in another way
    by_address = _list_tensors(capture, dict(given))
    found = []
    for i, slot in enumerate(explicit):
        if slot.size_bytes != ADDRESS_BYTES:
            continue
        address = read_address(read_value(capture, slot))
        if i < count:
            name, kind = given[i]
            match = _POINTER.fullmatch(kind)
            if match is not None:
                element = _ELEMENTS.get(match[2])
                found.append(
                    Pointer(f"{name} ({kind})", address, element, is_const=bool(match[1]), argument=i)
                )
        elif address in by_address:
            label, element = by_address[address]
            found.append(Pointer(label, address, element, is_const=False, argument=i))
        elif slot.value_kind != "by_value":
            found.append(Pointer(slot.name or f"argument {i}", address, None, slot.is_const, i))
    return tuple(found)


def _list_arguments(triton: TritonKernel) -> list[tuple[str, str]]:
    """Return names and types of what is passed at run time; elements of tuples are passed one by one."""
    found: list[tuple[str, str]] = []
    for name, text in triton.signature:
        kind = read_types(text)
        if text.endswith(")") and kind == text:
            kind = ""  # none of the later arguments is known
        found += _flatten(name, kind)
    constant = {value.name for value in triton.constexprs}  # before Triton 3.3, the number 1 has a type, too
    return [(name, kind) for name, kind in found if name not in constant]


def _flatten(name: str, kind: object) -> Iterator[tuple[str, str]]:
    if isinstance(kind, (tuple, list)):
        for place, each in enumerate(kind):
            yield from _flatten(f"{name}[{place}]", each)
    elif kind != "constexpr":
        yield name, str(kind)


def _is_one_argument(kind: str) -> bool:
    return kind != "" and _DESCRIPTOR.match(kind) is None


def _list_tensors(capture: Capture, kinds: dict[str, str]) -> dict[int, tuple[str, str | None]]:
    """Return label and type of the elements at each address that the call passed."""
    call = capture.launch.triton
    found: dict[int, tuple[str, str | None]] = {}
    for argument in () if call is None else call.arguments:
        kind = kinds.get(argument.name, "")
        match = _POINTER.fullmatch(kind) or _DESCRIPTOR.match(kind)
        if argument.tensor is not None and match is not None:
            found[argument.tensor.address] = (
                f"{argument.name} ({kind})",
                _ELEMENTS.get(match[match.lastindex or 0]),
            )
    return found
