"""Relocatable device code: finds the other units that a kernel's unit must be linked with.

A unit that was compiled with -fgpu-rdc may call device functions of other units. To find these units, each
unit is compiled to LLVM bitcode, and llvm-nm lists its defined and undefined symbols.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.compilers.flag_groups import group_flags
from kerncap_stages.compilers.hip import HipTool
from kerncap_stages.errors import DeviceError, KerncapError
from kerncap_stages.locate.wanted import Link
from kerncap_stages.manifests.kernel import Language

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.hip import RelocatableCode
    from kerncap_stages.locate.wanted import Wanted

RELOCATABLE = frozenset({"-fgpu-rdc", "-rdc=true", "--relocatable-device-code=true", "-dc", "--device-c"})
_MAX_UNITS = 64  # units that are compiled to see what they define
_AT_ONCE = 8


def find_link(command: CompileCommand, wanted: Wanted) -> Link:
    """Find the other units that a unit needs. There are none without relocatable device code, nor for CUDA.

    Raises DeviceError if the unit itself cannot be compiled.
    """
    key = command.file, command.directory, command.arguments
    if key not in wanted.links:
        wanted.links[key] = (
            _search_link(command, wanted) if RELOCATABLE.intersection(command.arguments) else Link()
        )
    return wanted.links[key]


def try_find_link(command: CompileCommand | None, wanted: Wanted) -> Link:
    """Find the other units that a unit needs; none if the compiler is missing or fails."""
    try:
        return Link() if command is None else find_link(command, wanted)
    except KerncapError:
        return Link()


def link_code(command: CompileCommand, wanted: Wanted, flags: tuple[str, ...]) -> bytes | None:
    """Compile a unit and the units that it needs, and link them to a code object; None if it needs none.

    flags: for the unit and the linker: those of its build, then added ones.
    Raises DeviceError if a unit cannot be compiled, or the units cannot be linked.
    """
    units = find_link(command, wanted).units
    tool = wanted.find_tool(command)
    if not units or not isinstance(tool, HipTool):
        return None
    # Flags that were added to the build's, such as another optimisation level, apply to all units.
    added = flags[len(wanted.toolchain.choose_flags(command, wanted.defines)) :]
    codes = [_compile(unit, wanted, added) for unit in (command, *units)]
    return tool.link_code(codes, flags, wanted.target)


def _search_link(command: CompileCommand, wanted: Wanted) -> Link:
    if not isinstance(wanted.find_tool(command), HipTool):
        return Link()
    own = _compile(command, wanted)
    missing, defined = set(own.undefined), set(own.defined)
    taken: list[CompileCommand] = []
    left = _list_candidates(command, missing, wanted)
    asked: list[tuple[CompileCommand, RelocatableCode]] = []
    while missing and left:
        some, left = left[:_AT_ONCE], left[_AT_ONCE:]
        with ThreadPoolExecutor(min(_AT_ONCE, len(os.sched_getaffinity(0)))) as pool:
            answers = pool.map(lambda unit: _try_compile(unit, wanted), some)
            asked += [(unit, code) for unit, code in zip(some, answers, strict=True) if code is not None]
        # All units that were compiled so far are looked at again: an earlier one may define a symbol that a
        # unit which was taken later needs.
        _take_defining(asked, missing, defined, taken)
    return Link(tuple(taken), tuple(sorted(missing)))


def _take_defining(
    asked: Sequence[tuple[CompileCommand, RelocatableCode]],
    missing: set[str],
    defined: set[str],
    taken: list[CompileCommand],
) -> None:
    """Take units that define missing symbols, until no compiled unit defines any."""
    found = True
    while missing and found:
        found = False
        for unit, code in asked:
            if unit not in taken and missing.intersection(code.defined):
                taken.append(unit)
                defined.update(code.defined)
                missing.update(code.undefined)
                missing.difference_update(defined)
                found = True


def _list_candidates(command: CompileCommand, missing: set[str], wanted: Wanted) -> list[CompileCommand]:
    """List the other units of the database, the likeliest first; a unit for each build of a file."""
    flags = wanted.toolchain.choose_flags
    others = [
        unit
        for unit in wanted.commands
        if unit.file != command.file and RELOCATABLE.intersection(unit.arguments)
    ]
    different = list({(unit.file, flags(unit), _find_output_folder(unit)): unit for unit in others}.values())
    place = _find_output_folder(command)
    # Units of one target write their object files to one folder.
    different.sort(key=lambda unit: _find_output_folder(unit) != place)
    return different[:_MAX_UNITS] if missing else []


def _find_output_folder(command: CompileCommand) -> Path:
    for group in group_flags(command.arguments[1:]):
        if group[0] == "-o" and len(group) == 2:
            return Path(os.path.normpath(command.directory / group[1])).parent
    return command.directory


def _compile(command: CompileCommand, wanted: Wanted, added: tuple[str, ...] = ()) -> RelocatableCode:
    key = command.file, command.directory, command.arguments, added
    if key not in wanted.relocatable:
        tool = wanted.find_tool(command)
        if not isinstance(tool, HipTool):
            raise DeviceError(f"{tool.path} is not a compiler for HIP", hint="pass --compiler PATH")
        flags = (*wanted.toolchain.choose_flags(command, wanted.defines), *added)
        wanted.relocatable[key] = tool.compile_relocatable(
            command.file, flags, command.directory, wanted.target
        )
    return wanted.relocatable[key]


def _try_compile(command: CompileCommand, wanted: Wanted) -> RelocatableCode | None:
    try:
        return _compile(command, wanted)
    except KerncapError:
        return None


def describe_link(command: CompileCommand, wanted: Wanted) -> Iterator[str]:
    """Yield notes for the user about a build with relocatable device code."""
    flag = min(RELOCATABLE.intersection(command.arguments), default=None)
    if flag is None:
        return
    if wanted.toolchain.language is not Language.HIP:
        yield (
            f"built with {flag}: device code of other units is not linked in; `make recompile` names the "
            "missing symbols"
        )
        return
    link = try_find_link(command, wanted)
    if link.units:
        names = ", ".join(str(unit.file) for unit in link.units)
        yield f"built with {flag}: linked with {names}, because its unit uses device code of them"
    if link.missing:
        yield (
            f"built with {flag}: the kernel's unit uses {', '.join(link.missing)}, which no unit in the "
            "compile commands defines, so `make recompile` cannot link it"
        )
