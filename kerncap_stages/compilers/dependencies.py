"""Asks the compiler which headers a translation unit includes, with the unit's own compile command."""

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
_ERROR = re.compile(r"\berror\s*:")  # ptxas writes blanks before the colon
_ABOUT_CUDA = ("--cuda-path=", "-nocudainc", "-nocudalib", "-nogpuinc", "-nogpulib")


@dataclass(frozen=True)
class Headers:
    """The headers of a unit: absolute paths, each once. ``own``: the include folders of the toolchain."""

    paths: tuple[Path, ...]
    own: tuple[Path, ...] = ()

    @classmethod
    def from_prerequisites(
        cls, prerequisites: Sequence[Path], unit: Path, directory: Path, own: Sequence[Path]
    ) -> Self:
        """Make Headers from a compiler's list: the unit and its headers, relative to ``directory``."""
        paths = dict.fromkeys(Path(os.path.normpath(directory / each)) for each in prerequisites)
        return cls(tuple(path for path in paths if path != unit), tuple(own))

    def list_local(self, definition: Path) -> list[Path]:
        """List the headers that are not the toolchain's, and those of the definition's library.

        A library of kernels may be installed in the compiler's own folders: all of its folder, such as
        /usr/include/rocprim, counts as local if the definition is in it.
        """
        library = self._find_library(definition)
        return [path for path in self.paths if not _is_below(path, self.own) or _is_below(path, library)]

    def list_toolchain(self) -> list[Path]:
        """List the headers in the toolchain's folders."""
        return [path for path in self.paths if _is_below(path, self.own)]

    def _find_library(self, definition: Path) -> tuple[Path, ...]:
        """Find the folder or file, directly below the toolchain's folder, that contains ``definition``."""
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
    """Parse the prerequisites of the first rule that a compiler prints with ``-M``."""
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


def list_toolchain_folders(compiler: Compiler, target: str, flags: Sequence[str] = ()) -> tuple[Path, ...]:
    """List the compiler's own include folders: headers below them belong to the toolchain.

    ``flags`` may say where CUDA is, or that there is none.
    """
    own = [flag for flag in flags if flag.startswith(_ABOUT_CUDA)]
    command = compiler.make_command(target, own, "-E", "-v", os.devnull, "-o", os.devnull)
    return parse_search_list(run_compiler(command, Path("/")).stderr)


def parse_search_list(text: str) -> tuple[Path, ...]:
    """Parse the include folders that a compiler lists with ``-v``."""
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
    """Run a compiler until it ends.

    Raises DeviceError if it cannot be started or does not end.
    """
    return run_tool(command, directory, hint="pass --compiler PATH")


def list_headers(
    compiler: Compiler, flags: Sequence[str], unit: Path, directory: Path, target: str
) -> Headers:
    """List every file that ``unit`` includes, at any depth.

    Raises DeviceError with the compiler's first error if the unit cannot be preprocessed with ``flags``.
    """
    # clang's driver ignores -M for one side of an offload compilation; its front end does not.
    with TemporaryFolder("headers") as name:
        rule, included = Path(name) / "rule", Path(name) / "included"
        listing = ["-dependency-file", str(rule), "-MT", "unit", "-sys-header-deps"]
        listing += ["-header-include-file", str(included)]
        asked = [each for word in listing for each in ("-Xclang", word)]
        words = compiler.make_command(target, flags, *asked, "-E", "-o", os.devnull, str(unit))
        result = run_compiler(words, directory)
        if result.returncode != 0 or not rule.exists():
            raise DeviceError(
                f"{unit} does not preprocess with its compile command: {find_first_error(result.stderr)}",
                hint="check that the build folder is complete (generated headers?) and -D is right",
            )
        prerequisites = [path for path in parse_make_rule(_read_text(rule)) if (directory / path).exists()]
        if included.exists():
            # A rule has slashes in place of backslashes, and a line break ends it; this file escapes both.
            prerequisites += [Path(_unescape(line)) for line in _read_text(included).split("\n") if line]
    own = list_toolchain_folders(compiler, target, flags)
    return Headers.from_prerequisites(prerequisites, unit, directory, own)


def _read_text(path: Path) -> str:
    return path.read_bytes().decode(errors="surrogateescape")


def _unescape(line: str) -> str:
    return _ESCAPED.sub(lambda match: "\n" if match[1] == "n" else match[1], line)


def find_first_error(said: str) -> str:
    """Find the first error in a compiler's messages, which may begin with warnings.

    A path may have the word, too: of a file that is named by a line without an error of its own.
    """
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    marked = (line for line in lines if _ERROR.search(line))
    named = (line for line in lines if "error" in line)
    return next(marked, next(named, lines[0] if lines else "it prints no message"))
