"""Prepares cubins for a replay, so that their variables and functions are found at their captured addresses.

The driver chooses where it loads a module, while captured memory holds the addresses that variables and
functions had in the program. So a cubin's variables get their captured addresses before it is loaded, and the
plan tells the replayer where to find the new addresses of functions:
docs/decisions/0037-addresses-of-cuda-modules.md.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages._native import demangle
from kerncap_stages.code.cubin_links import Links
from kerncap_stages.code.file_format import FileFormat, find_format
from kerncap_stages.code.kernel_facts import find_symbol, is_same_but_for_unit, strip_unit
from kerncap_stages.store.chunks import read_chunk, read_chunk_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import ModuleVariable
    from kerncap_stages.store import Store

# What reading a damaged cubin raises.
DAMAGE = (struct.error, ValueError, IndexError, OverflowError)
_MARKS_OF_UNITS = ("_GLOBAL__N__", "_INTERNAL_", "__nv_static_")
_WORD_BYTES = 8
_MAX_NAMED = 3
_IDENTIFIER = re.compile(rb"[\w$]+")


@dataclass(frozen=True)
class LinkedCode:
    """The cubin to load instead (None: the given one), lines for the replay's plan, and notes for people."""

    data: bytes | None = None
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def list_words(ptx: bytes) -> set[str]:
    """List the words of a text in PTX that may be names."""
    return {word.decode() for word in _IDENTIFIER.findall(ptx)}


def link_baseline(store: Store, capture: Capture, code: bytes) -> LinkedCode:
    """Give the variables of the captured cubin their captured addresses."""
    own = _find_own_variables(capture)
    try:
        return _relocate_baseline(store, own, code) if own else LinkedCode()
    except DAMAGE:
        return LinkedCode()


def _relocate_baseline(store: Store, own: dict[str, ModuleVariable], code: bytes) -> LinkedCode:
    links = Links(code)
    data, fixed = links.fix_variables({name: each.address for name, each in own.items() if not each.is_const})
    lines = [f"fixed baseline {name}" for name in sorted(fixed)]
    lines += _write_function_lines("baseline", _read_function_addresses(store, links, own), links)
    return LinkedCode(data if fixed else None, tuple(lines))


def link_variant(store: Store, capture: Capture, code: bytes) -> LinkedCode:
    """Give the variables of a variant their captured addresses, unless it is PTX."""
    own = _find_own_variables(capture)
    try:
        return _relocate_variant(store, capture, own, code) if own else LinkedCode()
    except DAMAGE:
        return LinkedCode()


def _relocate_variant(
    store: Store, capture: Capture, own: dict[str, ModuleVariable], code: bytes
) -> LinkedCode:
    captured = store.get(capture.code_digest)
    if find_format(code) is FileFormat.PTX:
        called = match_names(own, list_words(code))
        return LinkedCode(None, tuple(_write_renamings(called)))
    ours, theirs = Links(captured), Links(code)
    called = match_names(own, theirs.variables)
    wanted = {
        other: own[name].address
        for name, other in called.items()
        if other in theirs.variables
        and theirs.variables[other].size_bytes == own[name].size_bytes
        and not own[name].is_const
        and not theirs.variables[other].is_const
    }
    data, fixed = theirs.fix_variables(wanted)
    lines = [f"fixed variant {name}" for name, other in called.items() if other in fixed]
    lines += _write_renamings(called)
    lines += _write_function_lines("variant", _read_function_addresses(store, ours, own), theirs)
    return LinkedCode(
        data if fixed else None,
        tuple(lines),
        tuple(explain_other_numbers(ours, theirs, capture.kernel.mangled_name)),
    )


def explain_fault(store: Store, capture: Capture) -> tuple[str, ...]:
    """Return notes on a replay that faulted: which addresses in captured memory it could not relocate."""
    try:
        links = Links(store.get(capture.code_digest))
        followed = _read_function_addresses(store, links, _find_own_variables(capture))
    except DAMAGE:
        return ()
    lost = sorted(links.find_taken_functions().difference(followed))
    if not lost:
        return ()
    names = ", ".join(demangle(strip_unit(name)) for name in lost[:_MAX_NAMED])
    return (
        f"captured memory may hold the address of {names}: the module's code takes it, and no variable is "
        "initialized with it. With separate compilation (-rdc=true) the address differs in each process, "
        "so a stored address is wrong in a replay",
    )


def _find_own_variables(capture: Capture) -> dict[str, ModuleVariable]:
    digest = capture.code_digest
    return {
        variable.symbol: variable for variable in capture.module_variables if variable.code_object == digest
    }


def match_names(own: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """Return the name of each captured variable in a rebuilt code object: the mark of the unit may differ."""
    known = set(names)
    marked = [name for name in known if any(mark in name for mark in _MARKS_OF_UNITS)]
    found = {name: name if name in known else find_symbol(name, marked) for name in own}
    return {name: other for name, other in found.items() if other is not None}


def _write_renamings(called: dict[str, str]) -> Iterator[str]:
    return (f"renamed {name} {other}" for name, other in called.items() if name != other)


def _read_function_addresses(store: Store, links: Links, own: dict[str, ModuleVariable]) -> dict[str, int]:
    """Read the captured addresses of functions from variables that are initialized with them.

    The program may have stored other addresses there, so an address of several functions is left out.
    """
    found: dict[str, set[int]] = {}
    for slot in links.find_function_slots():
        variable = own.get(slot.variable.name)
        if variable is not None and variable.pre is not None:
            address = _read_word(store, variable.pre, slot.offset_bytes)
            if address:
                found.setdefault(slot.function, set()).add(address)
    single = {name: next(iter(addresses)) for name, addresses in found.items() if len(addresses) == 1}
    taken = list(single.values())
    return {name: address for name, address in single.items() if taken.count(address) == 1}


def _write_function_lines(role: str, captured: dict[str, int], links: Links) -> Iterator[str]:
    slots = {slot.function: slot for slot in reversed(links.find_function_slots())}
    for name, address in captured.items():
        found = find_symbol(name, slots)
        if found is not None:
            slot = slots[found]
            place = f"{slot.offset_bytes} {slot.variable.size_bytes} {slot.variable.name}"
            yield f"function {role} {address:#x} {place}"


def _read_word(store: Store, memory: MemoryRef, offset: int) -> int:
    chunks = read_chunk_list(store, memory)
    index, begin = divmod(offset, chunks.chunk_size_bytes)
    return int.from_bytes(read_chunk(store, chunks, index)[begin : begin + _WORD_BYTES].tobytes(), "little")


def explain_other_numbers(ours: Links, theirs: Links, kernel: str) -> Iterator[str]:
    """Yield notes if functions have other numbers in the variant than in the captured code.

    Without separate compilation memory holds functions as numbers, which an edit may change.
    """
    name = find_symbol(kernel, theirs.kernels) or kernel
    before, now = ours.find_function_numbers(kernel), theirs.find_function_numbers(name)
    if bool(ours.find_function_slots()) != bool(theirs.find_function_slots()) and (
        ours.find_function_slots() or before
    ):
        yield (
            "functions have addresses with separate compilation and numbers without it, and the variant was "
            "compiled the other way: pointers to functions in captured memory are wrong for it (for separate "
            "compilation: nvcc -rdc=true, then nvcc -dlink -cubin)"
        )
        return
    others = [
        number
        for number, function in before.items()
        if not is_same_but_for_unit(now.get(number, ""), function)
    ]
    if before and others:
        functions = ", ".join(f"{before[number]} is {now.get(number, 'none')}" for number in others[:3])
        yield (
            f"the variant numbers its functions differently ({functions} there): pointers to functions in "
            "captured memory lead to other functions"
        )
