"""Writes a header that includes what an edit of some files does not change, so that it is parsed once.

The files that are edited, and those that include them, are taken apart: the header has what they include and
their macros, but not their other text.
kc-locate uses this file, and projects have a copy of it: it needs Python alone, and files beside it.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.compilers.inclusions import Included

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    _Preprocess = Callable[..., Included | None]
_INCLUDE = re.compile(r'#\s*include\s*(?:<([^>]+)>|"([^"]+)")')
_MACRO = re.compile(r"#\s*(?:define|undef)\s+(\w+)")
# The two first directives of a file that is read once: a test, and the definition of what it tests.
_GUARD_DEFINED = re.compile(r"#\s*define\s+(\w+)\s*1?\s*(//.*|/\*.*)?")
_GUARD = re.compile(r"#\s*(?:ifndef\s+|if\s+!\s*defined\s*\(?\s*)(\w+)")
_DIRECTIVE = re.compile(r"^[ \t]*#.*", re.MULTILINE)
_ONCE = re.compile(r"^\s*#\s*pragma\s+once\b", re.MULTILINE)
# Of a file, of warnings, or of the loop that follows.
_HARMLESS = re.compile(
    r"#pragma\s+(once|(no)?unroll|GCC\s+(diagnostic|system_header)|clang\s+(diagnostic|loop))\b"
)
UNWRITABLE = re.compile(r"[\r\ud800-\udfff]")


@dataclass(frozen=True)
class Head:
    """The first lines of a file, up to its last #include."""

    path: Path
    line_count: int
    digest: str


@dataclass(frozen=True)
class HeaderText:
    """``text``: the header that is precompiled.

    apart: the files that it does not include, but whose includes it has.
    share: which part of the unit's lines it has, 0 to 1.
    """

    text: str
    apart: tuple[Included, ...]
    share: float


def write_header(
    without: Included,
    preprocess: _Preprocess,
    edited: Collection[Path],
    folder: Path,
    *,
    in_order: bool = True,
    rename: Callable[[Path], Path] = lambda path: path,
) -> HeaderText | None:
    """Write what can be precompiled while ``edited`` are changed; None if that is nothing.

    without: the unit as it is read without the header. preprocess: reads it with more flags.
    folder: where the header is written for trying.
    in_order: only what the unit has before the text of the first edited file. Otherwise also what follows it,
    which that file then sees, too.
    rename: returns the path by which to include a file, given the path by which the compiler names it.
    """
    ways = [way for path in edited if (way := without.find_way({path}))]
    if not ways:
        return None
    written = _Writer(ways, rename)
    if in_order:
        written.add_way(_find_first(without, edited))
    else:
        written.add_apart(without)
    lines = written.lines
    if written.problem or not any(map(_INCLUDE.match, lines)) or any(map(UNWRITABLE.search, lines)):
        return None
    text = "".join(f"{line}\n" for line in lines)
    header = folder / "tried.hpp"
    header.write_text(text, encoding="utf-8")
    made = preprocess("-include", str(header))
    taken_apart = {file.path.resolve() for file in written.apart}
    if made is None or _collect(made, header, taken_apart) != _collect(without, header, taken_apart):
        return None
    whole, left = (sum(1 for _ in list_own_lines(unit, header)) for unit in (without, made))
    return HeaderText(text, tuple(written.apart), 1 - left / max(whole, 1))


def list_own_lines(root: Included, header: Path) -> Iterator[tuple[Included, str]]:
    """Yield the lines that a unit has besides a header, and besides what the compiler reads by itself."""
    skipped = {id(file) for file in _list_skipped(root, header.resolve())}
    return ((file, line) for file, line in root.list_lines() if id(file) not in skipped)


def _list_skipped(root: Included, header: Path) -> Iterator[Included]:
    for part in root.list_included():
        if part.path.name.startswith("<") or part.path.resolve() == header:
            yield from part.list_files()
        else:
            yield from _list_skipped(part, header)


def _find_first(root: Included, edited: Collection[Path]) -> list[Included]:
    """Return the files on the way to the edited one whose text comes first: one may include another."""
    way = root.find_way(edited)
    left = set(edited)
    while left:
        left.discard(way[-1].path.resolve())
        inner = next((found for part in way[-1].list_included() if (found := part.find_way(left))), None)
        if inner is None:
            break
        way += inner
    return way


def _collect(root: Included, header: Path, taken_apart: set[Path]) -> dict[Path, list[str]]:
    """Collect what each file is preprocessed to. Macros of files that are taken apart are defined twice."""
    found: dict[Path, list[str]] = {}
    for file in root.list_files():
        path = file.path.resolve()
        if path == header.resolve() or file.path.name.startswith("<"):
            continue
        lines = [part for part in file.parts if isinstance(part, str)]
        if path in taken_apart:
            lines = [line for line in lines if not _MACRO.match(line)]
        if lines:
            found.setdefault(path, []).extend(lines)
    return found


class _Writer:
    """Writes the header.

    apart: the files that are not included themselves, but what they include, with their macros.
    problem: a file of them has text that may change what it includes: a pragma, an open namespace.
    """

    def __init__(self, ways: Sequence[Sequence[Included]], rename: Callable[[Path], Path]) -> None:
        self.lines: list[str] = []
        self.apart: list[Included] = []
        self.problem = False
        self._open = _find_including(ways)
        self._rename = rename

    def add_way(self, way: Sequence[Included]) -> None:
        """Add what the files on a way include before the next one, and what the last one includes."""
        self.apart += way
        for file, following in zip(way, [*way[1:], None], strict=True):
            headers = [i for i, part in enumerate(file.parts) if isinstance(part, Included) and part.spelled]
            end = next((i for i in headers if file.parts[i] is following), max(headers, default=-1) + 1)
            depth = self._add_parts(file, end)
            self.problem = self.problem or (following is not None and depth != 0)

    def add_apart(self, file: Included) -> None:
        """Add all that a file includes, and its macros."""
        self.apart.append(file)
        self._add_parts(file, len(file.parts))

    def _add_parts(self, file: Included, end: int) -> int:
        """Add the first parts of a file; return how many braces are open behind them."""
        guard = _find_guard(file.path)
        depth = 0
        for part in file.parts[:end]:
            if isinstance(part, Included):
                self.problem = self.problem or depth != 0
                self._add(part, file)
            elif macro := _MACRO.match(part):
                self.lines += [part] if macro[1] != guard else []
            elif part.startswith("#pragma"):
                self.problem = self.problem or _HARMLESS.match(part) is None
            else:
                depth += part.count("{") - part.count("}")
        return depth

    def _add(self, part: Included, by: Included) -> None:
        """Add a header; one that could be read twice, or that includes the edited file, is taken apart."""
        if not part.spelled:
            return  # the compiler reads it by itself
        if part.path.name not in self._open and _is_read_once(part.path):
            self.lines.append(_write_include(part, by, self._rename))
        else:
            self.add_apart(part)


def _find_including(ways: Sequence[Sequence[Included]]) -> frozenset[str]:
    """Find the names of the files on the ways, and of all that include one of them, at any depth.

    If an #include means a file that was read before, the preprocessor does not tell which one: it may be any
    file of that name.
    """
    found = {file.path.name for way in ways for file in way}
    files = [(file.path.name, set(map(_read_name, file.mentioned))) for file in ways[0][0].list_files()]
    before = 0
    while before < len(found):
        before = len(found)
        found.update(name for name, mentioned in files if not found.isdisjoint(mentioned))
    return frozenset(found)


def _is_read_once(path: Path) -> bool:
    return _find_guard(path) is not None or _ONCE.search(read_text(path)) is not None


def _find_guard(path: Path) -> str | None:
    """Find the macro that guards a file against being read twice."""
    first, second = ([*_DIRECTIVE.findall(read_text(path)), "", ""])[:2]
    tested, defined = _GUARD.match(first.strip()), _GUARD_DEFINED.fullmatch(second.strip())
    return tested[1] if tested and defined and tested[1] == defined[1] else None


def _read_name(include: str) -> str:
    found = _INCLUDE.match(include)
    return Path(found[1] or found[2]).name if found else ""


def _write_include(part: Included, by: Included, rename: Callable[[Path], Path]) -> str:
    """Write an #include as its file has it; one that is relative to that file, by its whole path.

    The path is the compiler's, with every `..`, because __FILE__ is that path.
    """
    found = _INCLUDE.match(part.spelled)
    path = rename(part.path)
    beside = rename(by.path).parent / found[2] if found and found[2] else None
    if found is None or (beside is not None and beside.resolve() == path.resolve()):
        return f'#include "{path}"'
    return found[0]


def read_text(path: Path) -> str:
    """Read a source file; "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def read_head(file: Included) -> Head:
    """Read the first lines of a file. Raises OSError if it cannot be read."""
    includes = [part.line for part in file.list_included() if part.spelled]
    first = file.path.read_bytes().split(b"\n")[: max(includes, default=0)]
    text = b"".join(line + b"\n" for line in first)
    return Head(Path(os.path.normpath(file.path)), len(first), hashlib.sha256(text).hexdigest())
