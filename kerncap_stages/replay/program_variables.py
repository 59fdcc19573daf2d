"""Connects a variant for CUDA with the variables of the program's module, in which it will run.

When the driver loads a cubin, it resolves references to the cubin's own variables. kc-run's library resolves
references to variables that the program has, too, before it loads the variant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kerncap_stages.code.cubin_links import Links
from kerncap_stages.code.file_format import FileFormat, find_format
from kerncap_stages.replay.cuda_code import DAMAGE, explain_other_numbers, list_words, match_names
from kerncap_stages.text.formats import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerncap_stages.code.cubin_links import AddressWord, Variable
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.store import Store

_UNNAMED = ("$", "__unnamed_")  # strings: the compiler's own, which each build numbers anew


@dataclass(frozen=True)
class ProgramVariable:
    """A variable of the captured module that the variant uses.

    words: of the variant's file, which get its address. A constant has none: the driver finds it through a
    bank of the module, so its contents are copied into the variant's.
    """

    name: str
    variant_name: str
    size_bytes: int
    is_const: bool
    words: tuple[AddressWord, ...] = ()


@dataclass(frozen=True)
class ConnectedCode:
    """The code to load and the program's variables in it.

    unconnected: why some cannot be connected, one text each. notes: for people.
    """

    data: bytes
    variables: tuple[ProgramVariable, ...] = ()
    unconnected: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def connect_code(store: Store, capture: Capture, code: bytes) -> ConnectedCode:
    """Find what a variant needs to use the variables of the captured module.

    Its own stay: variables that only the variant has, and tables of other contents that neither the program
    nor the captured kernel had changed when it was captured, as in a replay.
    """
    try:
        ours = Links(bytes(store.get(capture.code_digest)))
        names = [name for name in ours.variables if not name.startswith(_UNNAMED)]
        if find_format(code) is FileFormat.PTX:
            called = match_names(names, list_words(code))
            return ConnectedCode(code, (), tuple(f"{name}: PTX is linked by the driver" for name in called))
        theirs = Links(code)
        called = match_names(names, theirs.variables)
        edited = {
            name: other
            for name, other in called.items()
            if ours.read_initial(name) != theirs.read_initial(other)
            and _is_untouched(store, capture, ours, name)
        }
        shared = {name: other for name, other in called.items() if name not in edited}
        connected = _connect(ours, theirs, shared, capture.kernel.mangled_name)
    except DAMAGE as error:
        return ConnectedCode(code, (), (f"a cubin's variables cannot be read: {error}",))
    notes = [
        f"{name} has other contents in the variant, and the program had not changed it when the kernel was "
        "captured: the variant uses its own"
        for name in edited
    ]
    return replace(connected, notes=tuple(notes))


def _is_untouched(store: Store, capture: Capture, ours: Links, name: str) -> bool:
    """Whether a variable had its first contents before the captured dispatch, and after it."""
    found = [
        each
        for each in capture.module_variables
        if each.symbol == name and each.code_object == capture.code_digest
    ]
    if len(found) != 1 or found[0].pre is None or found[0].pre != found[0].post:
        return False
    held = bytearray(found[0].size_bytes)
    store.read_memory(found[0].pre.digest, held)
    return bytes(held) == ours.read_initial(name)


def _connect(ours: Links, theirs: Links, called: dict[str, str], kernel: str) -> ConnectedCode:
    problems = list(explain_other_numbers(ours, theirs, kernel))
    same: dict[str, str] = {}
    for name, other in called.items():
        if (why := _explain_difference(ours.variables[name], theirs.variables[other])) is not None:
            problems.append(why)
        else:
            same[name] = other
    data, words = theirs.release_variables(
        [other for other in same.values() if not theirs.variables[other].is_const]
    )
    slots = [*ours.find_function_slots(), *theirs.find_function_slots()]
    problems += [
        f"{slot.variable.name} holds addresses of functions"
        for slot in slots
        if slot.variable.name in same or slot.variable.name in same.values()
    ]
    variables = []
    for name, other in same.items():
        variable = theirs.variables[other]
        if not variable.is_const and other not in words:
            problems.append(f"the code refers to {name} in a way that is not understood")
            continue
        variables.append(
            ProgramVariable(name, other, variable.size_bytes, variable.is_const, words.get(other, ()))
        )
    return ConnectedCode(data, tuple(_leave_out_unused(variables)), tuple(dict.fromkeys(problems)))


def _leave_out_unused(variables: list[ProgramVariable]) -> Iterator[ProgramVariable]:
    """Yield those that need anything: no code refers to a variable without words."""
    return (each for each in variables if each.is_const or each.words)


def _explain_difference(ours: Variable, theirs: Variable) -> str | None:
    if ours.size_bytes != theirs.size_bytes:
        return f"{ours.name} has {count(ours.size_bytes, 'byte')} in the program"
    if ours.is_const != theirs.is_const:
        return f"{ours.name} is {'a constant' if ours.is_const else 'no constant'} in the program"
    return None
