"""Copies of sources in a project, and the clang overlay that puts them where the compiler expects them.

The compiler sees every file at its original path, so the flags of the original build stay as they are and
relative includes resolve as they did; the contents come from the project's folder. Paths in the overlay are
relative to the overlay file: the folder can be moved, and the original tree need not exist.
"""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

EDITABLE = "kernel_variant.cpp"
_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]")
# What an #include cannot hold, or JSON: a name that is not UTF-8 has surrogates here.
_UNWRITABLE = re.compile(r'["\n\r\0\ud800-\udfff]')


def place_files(originals: Sequence[str], editable: str = EDITABLE) -> dict[str, str]:
    """Map original paths to the project's: the first becomes the editable file, the rest go to ``deps/``.

    Names keep what they have below their common folder, without characters that mean something to a shell.
    """
    first, *rest = originals
    placed = {first: editable}
    taken = {editable}
    common = common_folder([PurePosixPath(path).parent for path in rest]).parts
    for original in rest:
        parts = PurePosixPath(original).parts[len(common) :]
        safe = [_safe(part) for part in parts]
        name = "/".join(("deps", *safe))
        stem, suffix = PurePosixPath(name).stem, PurePosixPath(name).suffix
        count = 1
        while name in taken or any(
            other.startswith(f"{name}/") or name.startswith(f"{other}/") for other in taken
        ):
            count += 1
            name = str(PurePosixPath(name).with_name(f"{stem}-{count}{suffix}"))
        taken.add(name)
        placed[original] = name
    return placed


def _safe(part: str) -> str:
    cleaned = _UNSAFE.sub("_", part)
    return f"_{cleaned}" if cleaned.startswith((".", "-")) else cleaned


def common_folder(folders: Sequence[PurePosixPath]) -> PurePosixPath:
    """The deepest folder that is in the path of each, or is it."""
    shared: list[str] = []
    for level in zip(*(folder.parts for folder in folders), strict=False):
        if len(set(level)) > 1:
            break
        shared.append(level[0])
    return PurePosixPath(*shared)


def overlay_text(placed: Mapping[str, str]) -> str:
    """The overlay file, as JSON, which is YAML. placed: by what the compiler is told, see ``renaming``."""
    roots = [
        {"type": "file", "name": original, "external-contents": placed[original]}
        for original in sorted(placed)
    ]
    overlay = {"version": 0, "case-sensitive": "true", "overlay-relative": "true", "roots": roots}
    return json.dumps(overlay, indent=1, ensure_ascii=False) + "\n"


def renaming(paths: Sequence[str]) -> Callable[[str], str]:
    """What the compiler is told instead of a path, or of a flag with one, that cannot be written for it.

    Folders and files with a quote or a line break in their names, or whose names are not UTF-8, get other
    names, which exist in the overlay alone.
    """
    names = {part for path in paths for part in PurePosixPath(path).parts}
    others: dict[str, str] = {}
    for name in sorted(filter(_UNWRITABLE.search, names)):
        told = _UNWRITABLE.sub("_", name)
        while told in names or told in others.values():
            told += "_"
        others[name] = told
    return lambda text: "/".join(others.get(part, part) for part in text.split("/"))


def overlay_files(placed: Mapping[str, str], units: Sequence[tuple[str, Sequence[str]]]) -> dict[str, bytes]:
    """What a project needs besides its sources for a clang that takes them at their original paths.

    units: path and flags of each, the kernel's own first.
    """
    rename = renaming([*placed, *(unit for unit, _ in units)])
    files = {"vfs.yaml": overlay_text({rename(path): name for path, name in placed.items()}).encode()}
    for i, (unit, flags) in enumerate(units):
        files[f"translation_unit{number_of(i)}.cpp"] = unit_text(rename(unit)).encode()
        told = response_text([rename(flag) for flag in flags])
        files[f"compile_flags{number_of(i)}.rsp"] = told.encode(errors="surrogateescape")
    return files


def number_of(unit: int) -> str:
    """What the names of a unit's files end in: nothing for the first, ``-2`` for the next."""
    return f"-{unit + 1}" if unit else ""


def unit_text(unit: str) -> str:
    """The file that is compiled: clang's driver wants one that exists, and it leads to the overlay."""
    return f'#include "{unit}"\n'


def response_text(flags: Sequence[str]) -> str:
    """A response file, one quoted flag a line: no flag ever reaches a shell or a Makefile."""
    quoted = ('"' + flag.replace("\\", "\\\\").replace('"', '\\"') + '"' for flag in flags)
    return "".join(f"{flag}\n" for flag in quoted)
