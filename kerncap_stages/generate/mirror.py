"""Sources in a project as they lay in their tree, for compilers without an overlay.

Relative includes lead where they led, because all files keep their places to one another; include folders of
the build become those of the copy. The file with the definition is edited at the top of the project: a link
in the copy leads to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kerncap_stages.compilers.nvcc_words import HOST_FOLDERS
from kerncap_stages.errors import Refused
from kerncap_stages.generate.overlay import common_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_FOLDER = "deps"
_PLAIN = re.compile(r"[A-Za-z0-9._+-]+")
_SEPARATE = ("-isystem", "-include")
_PASSED_ON = "-Xcompiler="
_UNESCAPED_QUOTE = re.compile(r'(?<!\\)"')


@dataclass(frozen=True)
class Mirror:
    """``root``: the deepest folder above all files and used include folders; ``placed``: path by original."""

    root: PurePosixPath
    placed: Mapping[str, str]

    @classmethod
    def of(cls, originals: Sequence[str], flags: Sequence[str]) -> Mirror:
        """Place files, given by absolute paths.

        Raises Refused for a name that would mean something to make or to nvcc's shell.
        """
        paths = [PurePosixPath(original) for original in originals]
        used = [
            folder
            for folder in map(PurePosixPath, _folders(flags))
            if any(folder in path.parents for path in paths)
        ]
        root = common_folder([*(path.parent for path in paths), *used])
        placed = {}
        for original, path in zip(originals, paths, strict=True):
            parts = path.relative_to(root).parts
            if not all(_PLAIN.fullmatch(part) for part in parts):
                raise Refused(
                    f"{original!r} has characters in its path that a project for nvcc cannot have: letters, "
                    "digits and ._+- are possible",
                    hint="rename it, or the folders between it and the other sources",
                )
            placed[original] = "/".join((_FOLDER, *parts))
        return cls(root, placed)

    def relocated(self, flags: Sequence[str]) -> list[str]:
        """The flags with the copy's folders; folders that hold nothing of the copy are left out."""
        made: list[str] = []
        words = iter(flags)
        for word in words:
            if word in _SEPARATE:
                place = self._place(next(words, ""))
                made += [word, place] if place else []
            elif word.startswith("-I"):
                place = self._place(word[2:])
                made += [f"-I{place}"] if place else []
            elif word.startswith(_PASSED_ON):
                parts = list(self._passed_on(word.removeprefix(_PASSED_ON).split(",")))
                made += [_PASSED_ON + ",".join(parts)] if parts else []
            else:
                made.append(word)
        return made

    def way_up(self, original: str) -> str:
        """``../`` as often as leads from a placed file's folder to the project."""
        return "../" * (len(PurePosixPath(self.placed[original]).parts) - 1)

    def _place(self, path: str) -> str | None:
        if not PurePosixPath(path).is_absolute():
            return path  # a header that is looked for in the include folders
        try:
            return "/".join((_FOLDER, *PurePosixPath(path).relative_to(self.root).parts))
        except ValueError:
            return None

    def _passed_on(self, parts: Sequence[str]) -> Iterator[str]:
        remaining = iter(parts)
        for part in remaining:
            if part in HOST_FOLDERS:
                place = self._place(next(remaining, ""))
                yield from (part, place) if place else ()
            elif part.startswith("-I"):
                place = self._place(part[2:])
                yield from (f"-I{place}",) if place else ()
            else:
                yield part


def nvcc_response_text(flags: Sequence[str]) -> str:
    """An options file for nvcc, a flag a line: it takes off one layer of quotes, then reads each as usual."""
    lines = []
    for flag in flags:
        word = _UNESCAPED_QUOTE.sub('\\\\"', flag)
        escaped = word.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'"{escaped}"\n')
    return "".join(lines)


def _folders(flags: Sequence[str]) -> Iterator[str]:
    """Every include folder among flags in their absolute form."""
    before = ""
    for flag in flags:
        for word in flag.removeprefix(_PASSED_ON).split(",") if flag.startswith(_PASSED_ON) else (flag,):
            if word.startswith("-I") and len(word) > 2:
                yield word[2:]
            elif before in HOST_FOLDERS and before != "-include":
                yield word
            before = word
