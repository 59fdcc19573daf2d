"""Copies sources into a project, and makes the clang overlay that maps original paths to the copies.

The compiler sees every file at its original path. So the flags of the original build do not change, and
relative includes resolve as before; the contents come from the project's folder. Paths in the overlay are
relative to the overlay file: the folder can be moved, and the original tree need not exist.
"""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

EDITABLE = "kernel_variant.cpp"
_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]")
# Characters that cannot be written in an #include or in JSON. A name that is not UTF-8 has surrogates.
_UNWRITABLE = re.compile(r'["\n\r\0\ud800-\udfff]')


def place_files(originals: Iterable[str], editable: str = EDITABLE) -> dict[str, str]:
    """Map original paths to the project's: the first becomes the editable file, the others go to ``deps/``.

    Paths in ``deps/`` are those below the common folder; characters that a shell would interpret are
    replaced.
    """
    first, *rest = originals
    placed = {first: editable}
    taken = {editable}
    common = find_common_folder([PurePosixPath(path).parent for path in rest]).parts
    for original in rest:
        parts = PurePosixPath(original).parts[len(common) :]
        safe = [_make_safe(part) for part in parts]
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


def _make_safe(part: str) -> str:
    cleaned = _UNSAFE.sub("_", part)
    return f"_{cleaned}" if cleaned.startswith((".", "-")) else cleaned


def find_common_folder(folders: Sequence[PurePosixPath]) -> PurePosixPath:
    """Find the deepest folder that holds each of ``folders``, or is one of them."""
    shared: list[str] = []
    for level in zip(*(folder.parts for folder in folders), strict=False):
        if len(set(level)) > 1:
            break
        shared.append(level[0])
    return PurePosixPath(*shared)


def make_overlay_text(placed: Mapping[str, str]) -> str:
    """Make the overlay file, in JSON, which is also YAML.

    placed: path in the project, by the path that the compiler gets from ``make_renaming``.
    """
    roots = [
        {"type": "file", "name": original, "external-contents": placed[original]}
        for original in sorted(placed)
    ]
    overlay = {"version": 0, "case-sensitive": "true", "overlay-relative": "true", "roots": roots}
    return json.dumps(overlay, indent=1, ensure_ascii=False) + "\n"


def make_renaming(paths: Sequence[str]) -> Callable[[str], str]:
    """Return a function that replaces names in a path, or in a flag with a path, that cannot be written.

    Folders and files with a quote or a line break in their names, or whose names are not UTF-8, get other
    names, which exist only in the overlay.
    """
    names = {part for path in paths for part in PurePosixPath(path).parts}
    others: dict[str, str] = {}
    for name in sorted(filter(_UNWRITABLE.search, names)):
        told = _UNWRITABLE.sub("_", name)
        while told in names or told in others.values():
            told += "_"
        others[name] = told
    return lambda text: "/".join(others.get(part, part) for part in text.split("/"))


def make_overlay_files(
    placed: Mapping[str, str], units: Sequence[tuple[str, Sequence[str]]]
) -> dict[str, bytes]:
    """Make the files, besides the sources, with which clang compiles the sources at their original paths.

    units: path and flags of each unit, the kernel's own first.
    """
    rename = make_renaming([*placed, *(unit for unit, _ in units)])
    files = {"vfs.yaml": make_overlay_text({rename(path): name for path, name in placed.items()}).encode()}
    for i, (unit, flags) in enumerate(units):
        files[f"translation_unit{format_number(i)}.cpp"] = make_unit_text(rename(unit)).encode()
        # Last: the user's own headers may lie beside the editable file.
        told = make_response_text([*(rename(flag) for flag in flags), "-I."])
        files[f"compile_flags{format_number(i)}.rsp"] = told.encode(errors="surrogateescape")
    return files


def format_number(unit: int) -> str:
    """Return the suffix of the names of a unit's files: empty for the first unit, ``-2`` for the next."""
    return f"-{unit + 1}" if unit else ""


def make_unit_text(unit: str) -> str:
    """Make the file that is compiled: clang's driver needs an existing file; it includes the unit."""
    return f'#include "{unit}"\n'


def make_response_text(flags: Sequence[str]) -> str:
    """Make a response file, one quoted flag a line: no flag is ever read by a shell or by make."""
    quoted = ('"' + flag.replace("\\", "\\\\").replace('"', '\\"') + '"' for flag in flags)
    return "".join(f"{flag}\n" for flag in quoted)
