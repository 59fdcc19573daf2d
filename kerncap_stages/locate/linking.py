"""Relocatable device code: the other units that a kernel's unit must be linked with.

A unit that was compiled with -fgpu-rdc may call device functions of other units. Which units define them is
asked of the compiler: each is compiled to LLVM's bitcode, and llvm-nm lists what that defines and misses.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.compilers.flag_groups import flag_groups
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
_MOST_UNITS = 64  # that are compiled to see what they define
_AT_ONCE = 8


def link_of(command: CompileCommand, wanted: Wanted) -> Link:
    """The other units that a unit needs; none where its build compiles each alone, or the tool is CUDA's.

    Raises DeviceError if the unit itself cannot be compiled.
    """
    key = command.file, command.directory, command.arguments
    if key not in wanted.links:
        wanted.links[key] = _link(command, wanted) if RELOCATABLE.intersection(command.arguments) else Link()
    return wanted.links[key]


def link_if_possible(command: CompileCommand | None, wanted: Wanted) -> Link:
    """The same; nothing where there is no compiler to ask, or it fails, which is told elsewhere."""
    try:
        return Link() if command is None else link_of(command, wanted)
    except KerncapError:
        return Link()


def linked_code(command: CompileCommand, wanted: Wanted, flags: tuple[str, ...]) -> bytes | None:
    """The code object of a unit with the units that it needs; None where it needs none.

    ``flags``: of the first unit, and for the linker; those of its build, and what is added to them.
    Raises DeviceError if a unit cannot be compiled, or they cannot be linked.
    """
    units = link_of(command, wanted).units
    tool = wanted.tool_for(command)
    if not units or not isinstance(tool, HipTool):
        return None
    # What was added to the build's flags, as another level of optimisation, is for all units.
    added = flags[len(wanted.toolchain.flags(command, wanted.defines)) :]
    codes = [_compiled(unit, wanted, added) for unit in (command, *units)]
    return tool.linked_code(codes, flags, wanted.target)


def _link(command: CompileCommand, wanted: Wanted) -> Link:
    if not isinstance(wanted.tool_for(command), HipTool):
        return Link()
    own = _compiled(command, wanted)
    missing, defined = set(own.undefined), set(own.defined)
    taken: list[CompileCommand] = []
    left = _candidates(command, missing, wanted)
    asked: list[tuple[CompileCommand, RelocatableCode]] = []
    while missing and left:
        some, left = left[:_AT_ONCE], left[_AT_ONCE:]
        with ThreadPoolExecutor(min(_AT_ONCE, len(os.sched_getaffinity(0)))) as pool:
            answers = pool.map(lambda unit: _compiled_if_possible(unit, wanted), some)
            asked += [(unit, code) for unit, code in zip(some, answers, strict=True) if code is not None]
        # Again of all: a unit that was asked before may define what one taken since then misses.
        _take(asked, missing, defined, taken)
    return Link(tuple(taken), tuple(sorted(missing)))


def _take(
    asked: Sequence[tuple[CompileCommand, RelocatableCode]],
    missing: set[str],
    defined: set[str],
    taken: list[CompileCommand],
) -> None:
    """Take units that define what is missing, until none of those asked does."""
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


def _candidates(command: CompileCommand, missing: set[str], wanted: Wanted) -> list[CompileCommand]:
    """The other units of the database, the likeliest first; each of several builds of a file is one."""
    flags = wanted.toolchain.flags
    others = [
        unit
        for unit in wanted.commands
        if unit.file != command.file and RELOCATABLE.intersection(unit.arguments)
    ]
    different = list({(unit.file, flags(unit), _output_folder(unit)): unit for unit in others}.values())
    place = _output_folder(command)
    # Units of one target have their objects in one folder.
    different.sort(key=lambda unit: _output_folder(unit) != place)
    return different[:_MOST_UNITS] if missing else []


def _output_folder(command: CompileCommand) -> Path:
    for group in flag_groups(command.arguments[1:]):
        if group[0] == "-o" and len(group) == 2:
            return Path(os.path.normpath(command.directory / group[1])).parent
    return command.directory


def _compiled(command: CompileCommand, wanted: Wanted, added: tuple[str, ...] = ()) -> RelocatableCode:
    key = command.file, command.directory, command.arguments, added
    if key not in wanted.relocatable:
        tool = wanted.tool_for(command)
        if not isinstance(tool, HipTool):
            raise DeviceError(f"{tool.path} is no compiler for HIP", hint="pass --compiler PATH")
        flags = (*wanted.toolchain.flags(command, wanted.defines), *added)
        wanted.relocatable[key] = tool.relocatable_code(command.file, flags, command.directory, wanted.target)
    return wanted.relocatable[key]


def _compiled_if_possible(command: CompileCommand, wanted: Wanted) -> RelocatableCode | None:
    try:
        return _compiled(command, wanted)
    except KerncapError:
        return None


def about_link(command: CompileCommand, wanted: Wanted) -> Iterator[str]:
    """What is told of a build of relocatable device code."""
    flag = min(RELOCATABLE.intersection(command.arguments), default=None)
    if flag is None:
        return
    if wanted.toolchain.language is not Language.HIP:
        yield (
            f"built with {flag}: device code of other units is not linked in, and `make recompile` names "
            "what it misses"
        )
        return
    link = link_if_possible(command, wanted)
    if link.units:
        names = ", ".join(str(unit.file) for unit in link.units)
        yield f"built with {flag}: linked with {names}, whose device code its unit uses"
    if link.missing:
        yield (
            f"built with {flag}: no unit in the compile commands defines {', '.join(link.missing)}, which "
            "the kernel's unit uses, so `make recompile` cannot link it"
        )
