"""Connects a variant with the program's module variables: its code then uses those, not variables of its own.

The variant's instructions compute addresses of its own variables. In each place kc-run's library puts the
address that the captured code object's variable has in the program.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.code.address_references import find_references
from kerncap_stages.code.code_object import DataSymbol, find_first_address, list_changing_data
from kerncap_stages.code.kernel_facts import strip_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_PATCHES = 1000  # that one message to the library holds
_UNNAMED = "__unnamed_"  # LLVM's: their numbers are others in each build
_NUMBER = re.compile(r"\.\d+$")  # the linker's, of static variables with one name


@dataclass(frozen=True)
class Patch:
    """A place in the variant's file. low, high: where the halves of an address go.

    at, word: an instruction to put there. target: an address as in the captured file's symbols.
    """

    at: int
    word: int
    low: int
    high: int
    target: int


@dataclass(frozen=True)
class Connection:
    """What connects a variant with the program's variables.

    names: of the variables. unconnected: why some cannot be connected, one text each.
    """

    patches: tuple[Patch, ...]
    names: tuple[str, ...]
    unconnected: tuple[str, ...]


def connect_variables(code: bytes, captured: bytes) -> Connection:
    """Find what to change in a variant so that it uses the variables of the captured code object.

    A variable that only the variant has stays its own. Constant tables are the same in both.
    """
    theirs = list_changing_data(captured)
    names_there = {_plain(each) for each in theirs}
    shared = [
        each
        for each in list_changing_data(code)
        if _plain(each) in names_there and not each.name.startswith(_UNNAMED)
    ]
    if not shared:
        return Connection((), (), ())
    begin, captured_begin = find_first_address(code), find_first_address(captured)
    references = find_references(code)
    patches: list[Patch] = []
    names: set[str] = set()
    problems: set[str] = set()
    for reference in references.found:
        variable = _find(shared, reference.target - begin)
        if variable is None:
            continue
        twins = [each for each in theirs if _plain(each) == _plain(variable)]
        if len(twins) != 1 or twins[0].size_bytes != variable.size_bytes:
            many = "is several variables" if len(twins) != 1 else f"has {twins[0].size_bytes} bytes"
            problems.add(f"{_plain(variable)} {many} in the program")
            continue
        into = reference.target - begin - variable.offset_bytes
        target = captured_begin + twins[0].offset_bytes + into
        patches.append(Patch(reference.at, reference.absolute, reference.low, reference.high, target))
        names.add(_plain(variable))
    stored = {
        _plain(each)
        for place, target in references.stored
        # What lies in a variable that is connected is not the variant's.
        if _find(shared, place - begin) is None and (each := _find(shared, target - begin)) is not None
    }
    problems |= {f"the address of {name} is in a table" for name in stored}
    if references.unknown:
        problems.add("the code computes addresses in a way that is not understood")
    if len(patches) > _MAX_PATCHES:
        problems.add(f"the code uses them in {len(patches):,} places, more than {_MAX_PATCHES:,}")
    return Connection(tuple(patches), tuple(sorted(names)), tuple(sorted(problems)))


def _find(variables: Sequence[DataSymbol], offset: int) -> DataSymbol | None:
    return next((each for each in variables if 0 <= offset - each.offset_bytes < each.size_bytes), None)


def _plain(variable: DataSymbol) -> str:
    return strip_unit(_NUMBER.sub("", variable.name))
