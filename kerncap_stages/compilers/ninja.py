"""Compile commands of a ``build.ninja``, as CMake and PyTorch's extensions have one: ninja prints them.

It runs nothing: ``-t compdb`` ends when the files are read, before ninja opens its logs, brings the file up
to date or makes a folder. It reads what the file includes, which may be a device without an end: so it is
given copies of plain files of the build's folder, and a file that includes others is not taken.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from kerncap_stages.compilers.compile_commands import commands_of
from kerncap_stages.compilers.consulted import SOURCE_SUFFIXES
from kerncap_stages.errors import DeviceError, UsageError
from kerncap_stages.machine.run_tool import run_tool
from kerncap_stages.machine.temporary import TemporaryFolder

if TYPE_CHECKING:
    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.consulted import Consulted

# A few lines may ask for words of any length: 1 GiB of memory; by the shell's unit, 64 or 128 MiB of words.
_BOUNDED = 'ulimit -v 1048576 && ulimit -f 131072 && exec "$@" > ../told'
_OTHER_FILES = re.compile(rb"^[ \t]*(?:include|subninja)\b(.*)$", re.MULTILINE)
_PLAIN_NAME = re.compile(rb"[ \t]+([\w.@%+=~/,-]+)[ \t]*\r?", re.ASCII)
_MOST_FILES = 256  # CMake's has two; with several configurations, five more
# CMake's that do not compile: commands of users begin by `cd`, links by `:`, scans for modules make .ddi.
_PREPARING = frozenset({"cd", ":"})
_SCANNED = ".ddi"
_ELSE = (
    "make a compile_commands.json: cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON {folder}, "
    "or ninja -C {folder} -t compdb > compile_commands.json"
)


def is_ninja_file(path: Path) -> bool:
    """Whether a file is called like ninja's."""
    return path.suffix == ".ninja"


def ninja_commands(path: Path, consulted: Consulted) -> list[CompileCommand]:
    """The commands that compile sources, as a ``compile_commands.json`` beside the file would have them.

    Raises UsageError where ninja cannot read the file, has none of them, or is not there.
    """
    tool = shutil.which("ninja")
    if tool is None:
        raise UsageError(f"{path} needs ninja to be read", hint="pip install ninja")
    files = _files(path, consulted)
    try:
        entries = _printed(tool, path.name, files)
        commands = commands_of([{**entry, "directory": str(path.parent)} for entry in entries], path.parent)
    except (DeviceError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"ninja does not read {path}: {error}", hint=_else(path)) from error
    if not commands:
        raise UsageError(
            f"{path} was read, and none of its commands compiles a source file: it may drive another build",
            hint="name the compile_commands.json or build.ninja of that one with --compile-commands",
        )
    return commands


def _files(path: Path, consulted: Consulted) -> dict[str, bytes]:
    """The file and those that it includes, by their names in its folder, from where ninja looks for them."""
    found: dict[str, bytes] = {}
    waiting = [path.name]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        text = consulted.read(path.parent / name)
        if text is None or len(found) == _MOST_FILES:
            why = (
                "it is missing, no plain file or too large" if text is None else "there are too many of them"
            )
            part = path if name == path.name else f"{path}, as it includes {name}, and that"
            raise UsageError(f"{part} cannot be read: {why}", hint=_else(path))
        found[name] = text
        waiting += [_included(each[1], path) for each in _OTHER_FILES.finditer(text)]
    return found


def _included(words: bytes, path: Path) -> str:
    """The name of an included file. Raises UsageError for one elsewhere, or that ninja would put together."""
    plain = _PLAIN_NAME.fullmatch(words)
    name = PurePosixPath(plain[1].decode() if plain else "/")
    if name.is_absolute() or ".." in name.parts:
        shown = words.decode(errors="replace").strip()[:200]
        raise UsageError(
            f"{path} is not read, as it includes other files than plain ones of its folder: {shown}",
            hint=_else(path),
        )
    return str(name)


def _printed(tool: str, main: str, files: dict[str, bytes]) -> list[dict[str, Any]]:
    """What ninja prints of copies, in a folder that has nothing else, as far as it compiles sources."""
    with TemporaryFolder("ninja") as name:
        build = Path(name) / "build"
        for file, text in files.items():
            (build / file).parent.mkdir(parents=True, exist_ok=True)
            (build / file).write_bytes(text)
        words = ["sh", "-c", _BOUNDED, "sh", tool, "-f", main, "-t", "compdb", "-x"]
        done = run_tool(words, build)
        if done.returncode != 0:
            raise ValueError(done.stderr.strip())
        told = Path(name, "told").read_text(errors="replace")
    return [entry for entry in json.loads(told) if _compiles(entry)]


def _compiles(entry: dict[str, Any]) -> bool:
    is_source = Path(entry["file"]).suffix.lower() in SOURCE_SUFFIXES
    if not is_source or str(entry.get("output", "")).endswith(_SCANNED):
        return False
    try:
        words = shlex.split(entry["command"])
    except ValueError:  # a quote that never ends
        return False
    return bool(words) and words[0] not in _PREPARING


def _else(path: Path) -> str:
    return _ELSE.format(folder=path.parent)
