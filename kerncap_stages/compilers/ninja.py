"""Reads compile commands from a ``build.ninja``, as CMake and PyTorch's extensions make one, by ninja itself.

ninja runs no command: ``-t compdb`` ends after the files are read, before ninja opens its logs, updates the
file or makes a folder. But ninja reads the files that the file includes, and one of them may be a device that
never ends. So ninja gets copies of plain files in the build's folder, and a file that includes others is
refused.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from kerncap_stages.compilers.compile_commands import read_entries
from kerncap_stages.compilers.consulted import SOURCE_SUFFIXES
from kerncap_stages.errors import DeviceError, UsageError
from kerncap_stages.machine.run_tool import run_tool
from kerncap_stages.machine.temporary import TemporaryFolder

if TYPE_CHECKING:
    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.consulted import Consulted

# A few lines of ninja can expand to words of any length. The limits: 1 GiB of memory; 64 or 128 MiB of
# output, depending on the shell's unit.
_BOUNDED = 'ulimit -v 1048576 && ulimit -f 131072 && exec "$@" > ../told'
_OTHER_FILES = re.compile(rb"^[ \t]*(?:include|subninja)\b(.*)$", re.MULTILINE)
_PLAIN_NAME = re.compile(rb"[ \t]+([\w.@%+=~/,-]+)[ \t]*\r?", re.ASCII)
_MAX_FILES = 256  # CMake makes two files; with several configurations, five more
# CMake's commands that do not compile: those of users begin with `cd`, links with `:`, module scans make
# .ddi.
_PREPARING = frozenset({"cd", ":"})
_SCANNED = ".ddi"
_ELSE = (
    "make a compile_commands.json: cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON {folder}, "
    "or ninja -C {folder} -t compdb > compile_commands.json"
)


def is_ninja_file(path: Path) -> bool:
    """Whether a file has the suffix of ninja's files."""
    return path.suffix == ".ninja"


def read_ninja_commands(path: Path, consulted: Consulted) -> list[CompileCommand]:
    """Read the commands that compile sources, as if from a ``compile_commands.json`` beside the file.

    Raises UsageError if ninja is missing or cannot read the file, or the file has no such commands.
    """
    tool = shutil.which("ninja")
    if tool is None:
        raise UsageError(f"ninja is needed to read {path}", hint="pip install ninja")
    files = _read_files(path, consulted)
    try:
        entries = _run_ninja(tool, path.name, files)
        commands = read_entries([{**entry, "directory": str(path.parent)} for entry in entries], path.parent)
    except (DeviceError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"ninja cannot read {path}: {error}", hint=_make_hint(path)) from error
    if not commands:
        raise UsageError(
            f"{path} was read, but no command compiles a source file: it may start another build",
            hint="give that build's compile_commands.json or build.ninja with --compile-commands",
        )
    return commands


def _read_files(path: Path, consulted: Consulted) -> dict[str, bytes]:
    """Read the file and the files that it includes, by their names in its folder."""
    found: dict[str, bytes] = {}
    waiting = [path.name]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        text = consulted.read(path.parent / name)
        if text is None or len(found) == _MAX_FILES:
            why = (
                "it is missing, not a plain file, or too large"
                if text is None
                else "there are too many files"
            )
            part = path if name == path.name else f"{path} includes {name}, which"
            raise UsageError(f"{part} cannot be read: {why}", hint=_make_hint(path))
        found[name] = text
        waiting += [_parse_include(each[1], path) for each in _OTHER_FILES.finditer(text)]
    return found


def _parse_include(words: bytes, path: Path) -> str:
    """Return the name of an included file. Raises UsageError if it is elsewhere, or contains variables."""
    plain = _PLAIN_NAME.fullmatch(words)
    name = PurePosixPath(plain[1].decode() if plain else "/")
    if name.is_absolute() or ".." in name.parts:
        shown = words.decode(errors="replace").strip()[:200]
        raise UsageError(
            f"{path} was not read, because it includes other files than plain ones in its folder: {shown}",
            hint=_make_hint(path),
        )
    return str(name)


def _run_ninja(tool: str, main: str, files: dict[str, bytes]) -> list[dict[str, Any]]:
    """Run ninja on copies of the files in an empty folder; returns the entries that compile sources."""
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


def _make_hint(path: Path) -> str:
    return _ELSE.format(folder=path.parent)
