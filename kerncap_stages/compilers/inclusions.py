"""Reads who includes whom from what clang's preprocessor prints with -dD and -dI.

kc-locate uses this file, and projects have a copy of it: it needs Python alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

# A line and a file, and 1 where the file begins, 2 where it goes on.
_MARKER = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"(?: ([12]))?')
_ESCAPED = re.compile(rb"\\([0-7]{3}|.)")


@dataclass
class Included:
    """A file that the compiler reads, with its lines and the files that it includes, in their order.

    spelled: its #include; "" for a file that the compiler reads by itself.
    line: of the file that includes it: that of the #include.
    mentioned: each #include in it, also of files that were read before.
    """

    path: Path
    spelled: str = ""
    line: int = 0
    parts: list[str | Included] = field(default_factory=list)
    mentioned: list[str] = field(default_factory=list)

    def list_included(self) -> Iterator[Included]:
        """Yield the files that this one includes itself."""
        return (part for part in self.parts if isinstance(part, Included))

    def list_files(self) -> Iterator[Included]:
        """Yield this file and all below it."""
        yield self
        for part in self.list_included():
            yield from part.list_files()

    def list_lines(self) -> Iterator[tuple[Included, str]]:
        """Yield the lines of this file and of all below it, in the order in which the compiler reads them."""
        for part in self.parts:
            if isinstance(part, Included):
                yield from part.list_lines()
            else:
                yield self, part

    def find_way(self, paths: Collection[Path]) -> list[Included]:
        """Return the files from this one to the first inclusion of one of ``paths``; [] if there is none."""
        if self.path.resolve() in paths:
            return [self]
        for part in self.list_included():
            if rest := part.find_way(paths):
                return [self, *rest]
        return []


def read_inclusions(output: Path, unit: Path, directory: Path) -> Included:
    """Read the preprocessor's output for a unit that was compiled in ``directory``."""
    root = Included(unit)
    stack = [root]
    spelled = ""
    for line in output.read_text(encoding="utf-8", errors="surrogateescape").split("\n"):
        marker = _MARKER.match(line)
        if marker is None:
            if line.startswith("#include"):
                spelled = line.partition(" /*")[0]
                stack[-1].mentioned.append(spelled)
            elif line and not line.isspace():
                stack[-1].parts.append(line)
            continue
        number, name, kind = marker.groups()
        if kind == "1":
            entered = Included(directory / _unescape(name), spelled)
            stack[-1].parts.append(entered)
            stack.append(entered)
            spelled = ""
        elif kind == "2" and len(stack) > 1:
            stack.pop().line = int(number) - 1
    return root


def _unescape(name: str) -> str:
    def replace(match: re.Match[bytes]) -> bytes:
        found = match[1]
        if found == b"n":
            return b"\n"
        return bytes([int(found, 8) & 255]) if len(found) == 3 else found

    return _ESCAPED.sub(replace, name.encode(errors="surrogateescape")).decode(errors="surrogateescape")
