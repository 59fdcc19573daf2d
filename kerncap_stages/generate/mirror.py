"""Copies sources into a project with the layout of their tree, for compilers without an overlay.

All files keep their relative places, so relative includes still work; include folders of the build become
those of the copy. The definition's file is edited at the top of the project; in the copy, a link points to
it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kerncap_stages.compilers.nvcc_words import HOST_FOLDERS
from kerncap_stages.errors import Refused
from kerncap_stages.generate.overlay import find_common_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_FOLDER = "deps"
_PLAIN = re.compile(r"[A-Za-z0-9._+-]+")
_SYSTEM = "-isystem"
_SEPARATE = (_SYSTEM, "-include")
_PASSED_ON = "-Xcompiler="
_UNESCAPED_QUOTE = re.compile(r'(?<!\\)"')


@dataclass(frozen=True)
class Mirror:
    """A copied tree.

    root: the deepest folder that contains all files and all used include folders.
    placed: path in the project, by original path.
    """

    root: PurePosixPath
    placed: Mapping[str, str]

    @classmethod
    def place(cls, originals: Sequence[str], flags: Sequence[str]) -> Mirror:
        """Place files, which are given by absolute paths.

        Raises Refused for a name with a character that make or nvcc's shell would interpret.
        """
        paths = [PurePosixPath(original) for original in originals]
        used = [
            folder
            for folder in map(PurePosixPath, _find_folders(flags))
            if any(folder in path.parents for path in paths)
        ]
        root = find_common_folder([*(path.parent for path in paths), *used])
        placed = {}
        for original, path in zip(originals, paths, strict=True):
            parts = path.relative_to(root).parts
            if not all(_PLAIN.fullmatch(part) for part in parts):
                raise Refused(
                    f"the path {original!r} has characters that a project for nvcc does not allow; letters, "
                    "digits and ._+- are allowed",
                    hint="rename the file, or the folders between it and the other sources",
                )
            placed[original] = "/".join((_FOLDER, *parts))
        return cls(root, placed)

    def relocate(self, flags: Sequence[str]) -> list[str]:
        """Replace folders in flags by those of the copy; folders that are not in the copy are left out.

        ``-isystem`` becomes ``-I`` behind all others, where it is searched as before; GCC ignores an earlier
        ``-I`` of the same folder. For GCC, a file in a system folder lies where a link to it leads, if that
        path is shorter: ``kernel_variant.cu`` would then not find the headers beside its original.
        """
        made, system = self._relocate(flags, _SEPARATE)
        last = list(dict.fromkeys(system))
        return [word for word in made if word not in last] + last

    def _relocate(self, words: Iterable[str], separate: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the words with folders of the copy, and the flags for system folders.

        separate: flags whose folder or file is the next word.
        """
        made: list[str] = []
        system: list[str] = []
        passed_on: list[str] = []  # nvcc puts what it passes on before all folders of its own
        remaining = iter(words)
        for word in remaining:
            if word in separate:
                place = self._find_place(next(remaining, ""))
                if place and word == _SYSTEM:
                    system.append(f"-I{place}")
                else:
                    made += [word, place] if place else []
            elif word.startswith("-I"):
                place = self._find_place(word[2:])
                made += [f"-I{place}"] if place else []
            elif word.startswith(_PASSED_ON):
                parts, folders = self._relocate(word.removeprefix(_PASSED_ON).split(","), HOST_FOLDERS)
                passed_on += folders
                made += [_PASSED_ON + ",".join(parts)] if parts else []
            else:
                made.append(word)
        return made, [*passed_on, *system]

    def make_way_up(self, original: str) -> str:
        """Return the ``../`` that lead from the folder of a placed file to the project's folder."""
        return "../" * (len(PurePosixPath(self.placed[original]).parts) - 1)

    def _find_place(self, path: str) -> str | None:
        if not PurePosixPath(path).is_absolute():
            return path  # a header that the compiler searches in the include folders
        try:
            return "/".join((_FOLDER, *PurePosixPath(path).relative_to(self.root).parts))
        except ValueError:
            return None


def make_nvcc_response_text(flags: Sequence[str]) -> str:
    """Make an options file for nvcc, one flag a line. nvcc removes one layer of quotes from each line."""
    lines = []
    for flag in flags:
        word = _UNESCAPED_QUOTE.sub('\\\\"', flag)
        escaped = word.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'"{escaped}"\n')
    return "".join(lines)


def _find_folders(flags: Sequence[str]) -> Iterator[str]:
    """Yield every include folder among flags with absolute paths."""
    before = ""
    for flag in flags:
        for word in flag.removeprefix(_PASSED_ON).split(",") if flag.startswith(_PASSED_ON) else (flag,):
            if word.startswith("-I") and len(word) > 2:
                yield word[2:]
            elif before in HOST_FOLDERS and before != "-include":
                yield word
            before = word
