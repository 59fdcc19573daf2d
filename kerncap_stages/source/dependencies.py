"""The exact set of local headers of a translation unit: the compiler's own answer under its own command."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.errors import DeviceError
from kerncap_stages.run_tool import run_tool

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

    from kerncap_stages.source.compilers import Compiler

_ESCAPED = re.compile(r"\\(.)")
_ABOUT_CUDA = ("--cuda-path=", "-nocudainc", "-nocudalib", "-nogpuinc", "-nogpulib")


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


def toolchain_folders(
    compiler: Compiler, directory: Path, target: str, flags: Sequence[str] = ()
) -> tuple[Path, ...]:
    """The compiler's own include folders: headers below them belong to the toolchain, not to the project.

    ``flags`` may say where CUDA is, or that there is none.
    """
    own = [flag for flag in flags if flag.startswith(_ABOUT_CUDA)]
    command = compiler.command(target, own, "-E", "-v", os.devnull, "-o", os.devnull)
    return parse_search_list(run_compiler(command, directory).stderr)


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


def local_headers(
    compiler: Compiler, flags: Sequence[str], unit: Path, directory: Path, target: str
) -> list[Path]:
    """Every file that ``unit`` includes, at any depth, except the toolchain's; absolute paths.

    Raises DeviceError with the compiler's first error if the unit cannot be preprocessed under ``flags``.
    """
    # The driver ignores -M for one side of an offload compilation; the compiler proper does not.
    with tempfile.TemporaryDirectory(prefix="kerncap-headers-") as name:
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
    own = toolchain_folders(compiler, directory, target, flags)
    return outside_toolchain(prerequisites, unit, directory, own)


def _text(path: Path) -> str:
    return path.read_bytes().decode(errors="surrogateescape")


def _unescaped(line: str) -> str:
    return _ESCAPED.sub(lambda match: "\n" if match[1] == "n" else match[1], line)


def first_error(said: str) -> str:
    """The line that matters of what a compiler said: warnings may stand before it, and its source behind."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "it says nothing")


def outside_toolchain(
    prerequisites: Sequence[Path], unit: Path, directory: Path, own: Sequence[Path]
) -> list[Path]:
    """The prerequisites that are neither the unit nor below one of the toolchain's ``own`` folders."""
    seen: dict[Path, None] = {}
    for prerequisite in prerequisites:
        path = Path(os.path.normpath(directory / prerequisite))
        places = (path, path.resolve())
        if path == unit or any(place.is_relative_to(folder) for folder in own for place in places):
            continue
        seen[path] = None
    return list(seen)
