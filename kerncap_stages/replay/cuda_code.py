"""Cubins as a replay loads them: with the captured places of what they define, where the driver has others.

The driver puts a module where it likes. Captured memory points to where its variables and functions were, so
a cubin's variables are given their captured addresses before it is loaded, and the replayer is told where it
finds the new addresses of functions: docs/decisions/0037-addresses-of-cuda-modules.md.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages._native import demangle
from kerncap_stages.code.cubin_links import Links
from kerncap_stages.code.file_format import FileFormat, format_of
from kerncap_stages.code.kernel_facts import find_symbol, same_but_for_unit, without_unit
from kerncap_stages.store.chunks import read_chunk, read_chunk_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import ModuleVariable
    from kerncap_stages.store import Store

_DAMAGE = (struct.error, ValueError, IndexError, OverflowError)
_MARKS_OF_UNITS = ("_GLOBAL__N__", "_INTERNAL_", "__nv_static_")
_WORD_BYTES = 8
_MOST_NAMED = 3
_IDENTIFIER = re.compile(rb"[\w$]+")


@dataclass(frozen=True)
class LinkedCode:
    """What to load instead, lines of the replay's plan that go with it, and what people are told."""

    data: bytes | None = None
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def link_baseline(store: Store, capture: Capture, code: bytes) -> LinkedCode:
    """The captured cubin."""
    own = _own_variables(capture)
    try:
        return _linked_baseline(store, own, code) if own else LinkedCode()
    except _DAMAGE:
        return LinkedCode()


def _linked_baseline(store: Store, own: dict[str, ModuleVariable], code: bytes) -> LinkedCode:
    links = Links(code)
    data, fixed = links.with_fixed({name: each.address for name, each in own.items() if not each.is_const})
    lines = [f"fixed baseline {name}" for name in sorted(fixed)]
    lines += _function_lines("baseline", _functions(store, links, own), links)
    return LinkedCode(data if fixed else None, tuple(lines))


def link_variant(store: Store, capture: Capture, code: bytes) -> LinkedCode:
    """A variant: a cubin, or PTX, whose variables stay where the driver puts them."""
    own = _own_variables(capture)
    try:
        return _linked_variant(store, capture, own, code) if own else LinkedCode()
    except _DAMAGE:
        return LinkedCode()


def _linked_variant(
    store: Store, capture: Capture, own: dict[str, ModuleVariable], code: bytes
) -> LinkedCode:
    captured = store.get(capture.code_digest)
    if format_of(code) is FileFormat.PTX:
        called = _called(own, {word.decode() for word in _IDENTIFIER.findall(code)})
        return LinkedCode(None, tuple(_renamed(called)))
    ours, theirs = Links(captured), Links(code)
    called = _called(own, theirs.variables)
    wanted = {
        other: own[name].address
        for name, other in called.items()
        if other in theirs.variables
        and theirs.variables[other].size_bytes == own[name].size_bytes
        and not own[name].is_const
        and not theirs.variables[other].is_const
    }
    data, fixed = theirs.with_fixed(wanted)
    lines = [f"fixed variant {name}" for name, other in called.items() if other in fixed]
    lines += _renamed(called)
    lines += _function_lines("variant", _functions(store, ours, own), theirs)
    return LinkedCode(
        data if fixed else None, tuple(lines), tuple(_renumbered(ours, theirs, capture.kernel.mangled_name))
    )


def why_it_may_fault(store: Store, capture: Capture) -> tuple[str, ...]:
    """What is to be said of a replay that faulted: addresses in captured memory that cannot be followed."""
    try:
        links = Links(store.get(capture.code_digest))
        followed = _functions(store, links, _own_variables(capture))
    except _DAMAGE:
        return ()
    lost = sorted(links.taken_functions().difference(followed))
    if not lost:
        return ()
    names = ", ".join(demangle(without_unit(name)) for name in lost[:_MOST_NAMED])
    return (
        f"captured memory may hold the address of {names}, which the module's code takes and none of its "
        "variables is loaded with: compiled separately (-rdc=true), it is another in each process, and what "
        "was stored leads nowhere in a replay",
    )


def _own_variables(capture: Capture) -> dict[str, ModuleVariable]:
    digest = capture.code_digest
    return {
        variable.symbol: variable for variable in capture.module_variables if variable.code_object == digest
    }


def _called(own: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """What a rebuilt code object calls each captured variable: the mark of the unit may be another."""
    known = set(names)
    marked = [name for name in known if any(mark in name for mark in _MARKS_OF_UNITS)]
    found = {name: name if name in known else find_symbol(name, marked) for name in own}
    return {name: other for name, other in found.items() if other is not None}


def _renamed(called: dict[str, str]) -> Iterator[str]:
    return (f"renamed {name} {other}" for name, other in called.items() if name != other)


def _functions(store: Store, links: Links, own: dict[str, ModuleVariable]) -> dict[str, int]:
    """Captured addresses of functions, as variables held them that are loaded with them.

    The program may have stored something else there: what stands for several functions is left out.
    """
    found: dict[str, set[int]] = {}
    for slot in links.function_slots():
        variable = own.get(slot.variable.name)
        if variable is not None and variable.pre is not None:
            address = _word(store, variable.pre, slot.offset_bytes)
            if address:
                found.setdefault(slot.function, set()).add(address)
    single = {name: next(iter(addresses)) for name, addresses in found.items() if len(addresses) == 1}
    taken = list(single.values())
    return {name: address for name, address in single.items() if taken.count(address) == 1}


def _function_lines(role: str, captured: dict[str, int], links: Links) -> Iterator[str]:
    slots = {slot.function: slot for slot in reversed(links.function_slots())}
    for name, address in captured.items():
        found = find_symbol(name, slots)
        if found is not None:
            slot = slots[found]
            place = f"{slot.offset_bytes} {slot.variable.size_bytes} {slot.variable.name}"
            yield f"function {role} {address:#x} {place}"


def _word(store: Store, memory: MemoryRef, offset: int) -> int:
    chunks = read_chunk_list(store, memory)
    index, begin = divmod(offset, chunks.chunk_size_bytes)
    return int.from_bytes(read_chunk(store, chunks, index)[begin : begin + _WORD_BYTES].tobytes(), "little")


def _renumbered(ours: Links, theirs: Links, kernel: str) -> Iterator[str]:
    """Where what stands for functions in memory means others in the variant.

    Without separate compilation functions are stored as numbers, which an edit may change.
    """
    name = find_symbol(kernel, theirs.kernels) or kernel
    before, now = ours.function_numbers(kernel), theirs.function_numbers(name)
    if bool(ours.function_slots()) != bool(theirs.function_slots()) and (ours.function_slots() or before):
        yield (
            "functions have addresses with separate compilation and numbers without, and the variant was "
            "compiled the other way: what captured memory holds of them leads nowhere (with: nvcc -rdc=true, "
            "then nvcc -dlink -cubin)"
        )
        return
    others = [
        number for number, function in before.items() if not same_but_for_unit(now.get(number, ""), function)
    ]
    if before and others:
        functions = ", ".join(f"{before[number]} is {now.get(number, 'none')}" for number in others[:3])
        yield (
            f"the variant numbers its functions in another way ({functions} there): addresses of functions "
            "that captured memory holds lead to others"
        )
