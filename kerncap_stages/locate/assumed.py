"""Assumes compile commands for a project whose build is not known.

A kernel in a header is compiled by a unit that includes the header, and ``#include "heat/coeff.cuh"`` needs
the folder above ``heat``. Both are found among the files below the source folders; nothing is run.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.compilers.compile_commands import CompileCommand
from kerncap_stages.compilers.includes import find_included_files, list_places
from kerncap_stages.locate.options import is_source_file, list_folders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.compilers.consulted import Consulted

_UNIT_SUFFIXES = frozenset({".cu", ".hip", ".cpp", ".cc", ".cxx"})
_DEVICE_SUFFIXES = frozenset({".cu", ".hip"})
_ABOUT_GPUS = re.compile(rb"\b(?:hip|cuda|cub|thrust|rocprim)\w*|<<<|__global__")
_MAX_UNITS = 64
_MAX_ROUNDS = 16


def assume_commands(
    definition_file: Path | None, roots: Sequence[Path], words: Sequence[str], consulted: Consulted
) -> list[CompileCommand]:
    """Return a command for each unit below ``roots`` that is the definition's file, or includes it.

    roots: folders, and source files whose folders are searched. words: the compiler, and its flags.
    The definition's file comes first. Without a definition's file, each unit that may have kernels gets a
    command.
    """
    wanted = None if definition_file is None else definition_file.resolve()
    named = [root for root in roots if is_source_file(root)]
    below = (file for folder in list_folders(roots) for file in consulted.list_sources(folder))
    files = dict.fromkeys((*named, *below))
    units = [file for file in files if is_unit(file)]
    units.sort(key=lambda unit: unit.resolve() != wanted)
    commands = []
    for unit in units[:_MAX_UNITS]:
        folders, reached = _find_folders(unit, list(files), consulted)
        if wanted is None:
            is_one = _may_have_kernels(unit, consulted)
        else:
            is_one = unit.resolve() == wanted or wanted in reached
        if is_one:
            command = (*words, *(f"-I{folder}" for folder in folders), str(unit))
            commands.append(CompileCommand(unit.resolve(), unit.parent.resolve(), command))
    return commands


def is_unit(path: Path) -> bool:
    """Whether a file's name is that of a translation unit, not of a header."""
    return path.suffix.lower() in _UNIT_SUFFIXES


def _may_have_kernels(unit: Path, consulted: Consulted) -> bool:
    """Whether a unit may have kernels: by its suffix, or by words of HIP or CUDA in its text.

    A unit that is or includes a pipe or a device has none: the compiler would never end.
    """
    content = consulted.read(unit)
    if content is None:
        return False
    included = (each for candidates in list_places(content, unit, [Path("/")]) for each in candidates)
    if any(each.exists() and not each.is_file() for each in included):
        return False
    return unit.suffix.lower() in _DEVICE_SUFFIXES or bool(_ABOUT_GPUS.search(content))


def _find_folders(unit: Path, files: Sequence[Path], consulted: Consulted) -> tuple[list[Path], set[Path]]:
    """Find the include folders that a unit needs to reach local files, and what it then includes."""
    folders: list[Path] = []
    reached: list[Path] = []
    for _ in range(_MAX_ROUNDS):
        reached = find_included_files(unit, folders, consulted)
        more = [
            folder
            for file in (unit, *reached)
            for folder in _find_missing_folders(file, folders, files, consulted)
            if folder not in folders
        ]
        if not more:
            break
        folders += dict.fromkeys(more)
    return folders, {file.resolve() for file in reached}


def _find_missing_folders(
    file: Path, folders: Sequence[Path], files: Sequence[Path], consulted: Consulted
) -> list[Path]:
    """For each include that is not found, find the folder below which a known file has that path."""
    found = []
    for candidates in list_places(consulted.read(file) or b"", file, [*folders, Path("/")]):
        *tried, named = candidates  # the last is the include's own path below the root folder
        tail = named.parts[1:]
        is_quoted = tried[:1] == [file.parent.joinpath(*tail)]
        # <string.h> is the system's, even if the project has a file of that name.
        if any(candidate.is_file() for candidate in tried) or (len(tail) == 1 and not is_quoted):
            continue
        fitting = [each for each in files if each.parts[-len(tail) :] == tail] if tail else []
        if fitting:
            found.append(Path(*fitting[0].parts[: -len(tail)]))
    return found
