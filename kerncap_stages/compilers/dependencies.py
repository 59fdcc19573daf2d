"""The exact set of local headers of a translation unit: the compiler's own answer under its own command."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kerncap_stages.errors import DeviceError
from kerncap_stages.machine.run_tool import run_tool
from kerncap_stages.machine.temporary import TemporaryFolder

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

    from kerncap_stages.compilers.installed import Compiler

_ESCAPED = re.compile(r"\\(.)")
_ABOUT_CUDA = ("--cuda-path=", "-nocudainc", "-nocudalib", "-nogpuinc", "-nogpulib")


@dataclass(frozen=True)
class Headers:
    """What a unit includes: absolute paths, each once. ``own``: the include folders of the toolchain."""

    paths: tuple[Path, ...]
    own: tuple[Path, ...] = ()

    @classmethod
    def of(cls, prerequisites: Sequence[Path], unit: Path, directory: Path, own: Sequence[Path]) -> Self:
        """From what a compiler lists, the unit among it, relative to the folder in which it ran."""
        paths = dict.fromkeys(Path(os.path.normpath(directory / each)) for each in prerequisites)
        return cls(tuple(path for path in paths if path != unit), tuple(own))

    def local(self, definition: Path) -> list[Path]:
        """All that are neither below the toolchain's folders nor of the library of ``definition``.

        A library of kernels is installed where the compiler looks anyway: what lies there in one folder, as
        /usr/include/rocprim, is as local as the definition that it holds.
        """
        library = self._library(definition)
        return [path for path in self.paths if not _is_below(path, self.own) or _is_below(path, library)]

    def of_toolchain(self) -> list[Path]:
        """The others."""
        return [path for path in self.paths if _is_below(path, self.own)]

    def _library(self, definition: Path) -> tuple[Path, ...]:
        """The folder next below the toolchain's, or the file itself; nothing for what is no toolchain's."""
        place = definition.resolve()
        above = [folder for folder in self.own if place.is_relative_to(folder)]
        if not above:
            return ()
        nearest = max(above, key=lambda folder: len(folder.parts))
        return (nearest / place.relative_to(nearest).parts[0],)


def _is_below(path: Path, folders: Sequence[Path]) -> bool:
    places = (path, path.resolve()) if folders else ()
    return any(place.is_relative_to(folder) for place in places for folder in folders)


def parse_make_rule(text: str) -> list[Path]:
    """The prerequisites of the first rule that a compiler's ``-M`` prints."""
    _, _, body = text.partition(": ")
    words: list[str] = [""]
    position = 0
    while position < len(body):
        if body.startswith("\\\n", position):
            words.append("")
            position += 2
        elif body[position] == "\\" and body[position + 1 : position + 2] in (" ", "#", "\\"):
            words[-1] += body[position + 1]
            position += 2
        elif body.startswith("$$", position):
            words[-1] += "$"
            position += 2
        elif body[position] == " ":
            words.append("")
            position += 1
        elif body[position] == "\n":
            break
        else:
            words[-1] += body[position]
            position += 1
    return [Path(word) for word in words if word]


def toolchain_folders(compiler: Compiler, target: str, flags: Sequence[str] = ()) -> tuple[Path, ...]:
    """The compiler's own include folders: headers below them belong to the toolchain, not to the project.

    ``flags`` may say where CUDA is, or that there is none.
    """
    own = [flag for flag in flags if flag.startswith(_ABOUT_CUDA)]
    command = compiler.command(target, own, "-E", "-v", os.devnull, "-o", os.devnull)
    return parse_search_list(run_compiler(command, Path("/")).stderr)


def parse_search_list(text: str) -> tuple[Path, ...]:
    """The include folders that a compiler lists when it is asked to be verbose."""
    folders: list[Path] = []
    listing = False
    for line in text.splitlines():
        if line.startswith("#include "):
            listing = True
        elif line.startswith("End of search list"):
            listing = False
        elif listing and line.startswith(" "):
            folders.append(Path(line.strip()).resolve())
    return tuple(dict.fromkeys(folders))


def run_compiler(command: Sequence[str], directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a compiler to its end.

    Raises DeviceError if it cannot be started or does not end.
    """
    return run_tool(command, directory, hint="pass --compiler PATH")


def headers(compiler: Compiler, flags: Sequence[str], unit: Path, directory: Path, target: str) -> Headers:
    """Every file that ``unit`` includes, at any depth.

    Raises DeviceError with the compiler's first error if the unit cannot be preprocessed under ``flags``.
    """
    # The driver ignores -M for one side of an offload compilation; the compiler proper does not.
    with TemporaryFolder("headers") as name:
        rule, included = Path(name) / "rule", Path(name) / "included"
        listing = ["-dependency-file", str(rule), "-MT", "unit", "-sys-header-deps"]
        listing += ["-header-include-file", str(included)]
        asked = [each for word in listing for each in ("-Xclang", word)]
        words = compiler.command(target, flags, *asked, "-E", "-o", os.devnull, str(unit))
        result = run_compiler(words, directory)
        if result.returncode != 0 or not rule.exists():
            raise DeviceError(
                f"{unit} does not preprocess under its compile command: {first_error(result.stderr)}",
                hint="check that the build folder is complete (generated headers?) and -D is right",
            )
        prerequisites = [path for path in parse_make_rule(_text(rule)) if (directory / path).exists()]
        if included.exists():
            # In a rule clang makes backslashes slashes, and a line break ends it. Here both are escaped.
            prerequisites += [Path(_unescaped(line)) for line in _text(included).split("\n") if line]
    own = toolchain_folders(compiler, target, flags)
    return Headers.of(prerequisites, unit, directory, own)


def _text(path: Path) -> str:
    return path.read_bytes().decode(errors="surrogateescape")


def _unescaped(line: str) -> str:
    return _ESCAPED.sub(lambda match: "\n" if match[1] == "n" else match[1], line)


def first_error(said: str) -> str:
    """The line that matters of what a compiler said: warnings may stand before it, and its source behind."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "it says nothing")
