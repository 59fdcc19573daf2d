"""Compile commands where no build is known: units that reach the kernel, and where their includes lie.

A kernel in a header is compiled through a unit that includes it, and ``#include "heat/coeff.cuh"`` needs the
folder above ``heat``. Both are taken from the files below the source folders; nothing is run.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.compilers.compile_commands import CompileCommand
from kerncap_stages.compilers.includes import included_files, places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.compilers.consulted import Consulted

_UNIT_SUFFIXES = frozenset({".cu", ".hip", ".cpp", ".cc", ".cxx"})
_DEVICE_SUFFIXES = frozenset({".cu", ".hip"})
_ABOUT_GPUS = re.compile(rb"\b(?:hip|cuda|cub|thrust|rocprim)\w*|<<<|__global__")
_MOST_UNITS = 64
_MOST_ROUNDS = 16


def assumed_commands(
    definition_file: Path | None, roots: Sequence[Path], compiler: str, consulted: Consulted
) -> list[CompileCommand]:
    """A command for each unit below ``roots`` that is the file or includes it, the file itself first.

    Without a file: for each unit that could have kernels.
    """
    wanted = None if definition_file is None else definition_file.resolve()
    files = dict.fromkeys(file for root in roots if root.is_dir() for file in consulted.sources(root))
    units = [file for file in files if is_unit(file)]
    units.sort(key=lambda unit: unit.resolve() != wanted)
    commands = []
    for unit in units[:_MOST_UNITS]:
        folders, reached = _folders_for(unit, list(files), consulted)
        if wanted is None:
            is_one = _may_have_kernels(unit, consulted)
        else:
            is_one = unit.resolve() == wanted or wanted in reached
        if is_one:
            words = (compiler, "-O3", *(f"-I{folder}" for folder in folders), str(unit))
            commands.append(CompileCommand(unit.resolve(), unit.parent.resolve(), words))
    return commands


def is_unit(path: Path) -> bool:
    """Whether a file is called like a translation unit, and not like a header."""
    return path.suffix.lower() in _UNIT_SUFFIXES


def _may_have_kernels(unit: Path, consulted: Consulted) -> bool:
    """Host code alone is mostly in files of other names, or includes nothing of HIP's or CUDA's.

    A compiler would wait for a pipe and never end with a device: no unit that is or includes one is compiled.
    """
    content = consulted.read(unit)
    if content is None:
        return False
    included = (each for candidates in places(content, unit, [Path("/")]) for each in candidates)
    if any(each.exists() and not each.is_file() for each in included):
        return False
    return unit.suffix.lower() in _DEVICE_SUFFIXES or bool(_ABOUT_GPUS.search(content))


def _folders_for(unit: Path, files: Sequence[Path], consulted: Consulted) -> tuple[list[Path], set[Path]]:
    """The include folders that a unit needs to reach local files, and what it reaches then."""
    folders: list[Path] = []
    reached: list[Path] = []
    for _ in range(_MOST_ROUNDS):
        reached = included_files(unit, folders, consulted)
        more = [
            folder
            for file in (unit, *reached)
            for folder in _missing_folders(file, folders, files, consulted)
            if folder not in folders
        ]
        if not more:
            break
        folders += dict.fromkeys(more)
    return folders, {file.resolve() for file in reached}


def _missing_folders(
    file: Path, folders: Sequence[Path], files: Sequence[Path], consulted: Consulted
) -> list[Path]:
    """For each include of a file that leads nowhere: the folder from which it would lead to a known file."""
    found = []
    for candidates in places(consulted.read(file) or b"", file, [*folders, Path("/")]):
        *tried, named = candidates  # the last is the include's own words below the root
        tail = named.parts[1:]
        is_quoted = tried[:1] == [file.parent.joinpath(*tail)]
        # <string.h> is the system's, whatever the project has of that name.
        if any(candidate.is_file() for candidate in tried) or (len(tail) == 1 and not is_quoted):
            continue
        fitting = [each for each in files if each.parts[-len(tail) :] == tail] if tail else []
        if fitting:
            found.append(Path(*fitting[0].parts[: -len(tail)]))
    return found
