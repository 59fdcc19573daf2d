"""Follows ``#include`` lines to their files, and lists the places that the compiler searches first."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.compilers.consulted import Consulted

_INCLUDE = re.compile(
    rb'^[ \t]*#[ \t]*(?:include|include_next|import)[ \t]*([<"])([^>"\n]+)[>"]'
    rb'|__has_include(?:_next)?[ \t]*\([ \t]*([<"])([^>"\n]+)[>"]',
    re.MULTILINE,
)
_SEPARATE = ("-I", "-iquote", "-isystem", "-idirafter")
_MAX_DEPTH = 64


def list_include_folders(flags: Sequence[str]) -> list[Path]:
    """List the include folders in flags with absolute paths, in the order of search."""
    found: dict[str, list[Path]] = {flag: [] for flag in _SEPARATE}
    words = iter(flags)
    for word in words:
        for flag in _SEPARATE:
            if word == flag:
                found[flag].append(Path(next(words, ".")))
            elif word.startswith(flag):
                found[flag].append(Path(word[len(flag) :]))
    return [folder for flag in ("-iquote", "-I", "-isystem", "-idirafter") for folder in found[flag]]


def list_environment_folders() -> list[Path]:
    """List the include folders that environment variables add for every compiler."""
    texts = (os.environ.get(name, "") for name in ("CPATH", "CPLUS_INCLUDE_PATH"))
    return [Path(folder) for text in texts for folder in text.split(":") if folder]


def list_places(text: bytes, includer: Path, folders: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield, for each include in a file's text, the places where its file may be, in the order of search."""
    for match in _INCLUDE.finditer(text):
        quoted = b'"' in (match[1], match[3])
        name = os.fsdecode(match[2] or match[4])
        around = (includer.parent, *folders) if quoted else folders
        yield list(dict.fromkeys(Path(os.path.normpath(folder / name)) for folder in around))


def find_included_files(path: Path, folders: Sequence[Path], consulted: Consulted) -> list[Path]:
    """Find the local files that ``path`` includes at any depth, beside the includer or in ``folders``."""
    seen: dict[Path, None] = {}
    stack = [(path, 0)]
    while stack:
        current, depth = stack.pop()
        text = consulted.read(current)
        if text is None or depth > _MAX_DEPTH:
            continue
        for candidates in list_places(text, current, folders):
            for candidate in candidates:
                if candidate in seen or candidate == path:
                    break
                if consulted.exists(candidate):
                    seen[candidate] = None
                    stack.append((candidate, depth + 1))
                    break
    return list(seen)


def note_absent(files: Sequence[Path], folders: Sequence[Path], consulted: Consulted) -> None:
    """Record the places that are searched before an include is found: a new file there is a change."""
    for file in files:
        text = consulted.read(file)
        for candidates in list_places(text or b"", file, folders):
            for candidate in candidates:
                if candidate.is_file():
                    break
                consulted.note_absent_file(candidate)
