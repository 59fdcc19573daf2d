"""Compile commands: reading a compilation database, and what of an entry shapes the code of one kernel."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LAUNCHERS = frozenset({"ccache", "sccache", "distcc", "icecc"})
# Flags that name outputs, dependency files or the phase: a rebuild of one kernel sets its own.
_DROPPED = frozenset(
    {"-c", "-S", "-E", "-MD", "-MMD", "-MP", "-MG", "-M", "-MM", "-fgpu-rdc", "-save-temps", "--save-temps"}
)
_DROPPED_WITH_VALUE = frozenset(
    {"-o", "-MF", "-MT", "-MQ", "-MJ", "--offload-arch", "-x", "--serialize-diagnostics", "-arch"}
)
_DROPPED_PREFIXES = (
    "--offload-arch=",
    "--no-offload-arch=",
    "--cuda-gpu-arch=",
    "--offload-host-only",
    "--offload-device-only",
    "-save-temps=",
    "--save-temps=",
    "-fuse-cuid=",
    "-cuid=",
    "-MF",
    "-MT",
    "-MQ",
    "-o",
)
# A flag that starts like a dropped one but is not.
_KEPT_PREFIXES = ("-opaque", "-offload-", "-fgpu-rdc=")
_PATH_FLAGS = (
    "-I",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-include",
    "-imacros",
    "-isysroot",
    "-iprefix",
    "--sysroot",
)


@dataclass(frozen=True)
class CompileCommand:
    """One entry of a compilation database: response files expanded, launchers stripped."""

    file: Path  # absolute
    directory: Path  # absolute; relative flags are relative to it
    arguments: tuple[str, ...]  # the compiler first

    @property
    def compiler(self) -> str:
        """The compiler as the build called it."""
        return self.arguments[0]


def find_database(start: Path) -> Path | None:
    """``compile_commands.json`` in ``start``, its ``build*`` folders, or the same of an ancestor."""
    for folder in (start, *start.parents):
        for candidate in (folder, *sorted(folder.glob("build*")), *sorted(folder.glob("out*"))):
            path = candidate / "compile_commands.json"
            if path.is_file():
                return path
        if (folder / ".git").exists():
            break
    return None


def load_database(path: Path) -> list[CompileCommand]:
    """Every entry, in the order of the file.

    Raises UsageError if it is not a compilation database.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
        if not isinstance(entries, list):
            raise TypeError("the top level is not a list")
        return [_command(entry, path.parent) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} is not a compilation database: {error}",
            hint="make one with cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON, or pass --compile-commands FILE",
        ) from error


def _command(entry: dict[str, object], base: Path) -> CompileCommand:
    directory = (base / str(entry["directory"])).resolve()
    raw = entry.get("arguments")
    words = [str(word) for word in raw] if isinstance(raw, list) else shlex.split(str(entry["command"]))
    words = list(_expand_response_files(words, directory))
    while len(words) > 1 and Path(words[0]).name in _LAUNCHERS:
        words.pop(0)
    return CompileCommand((directory / str(entry["file"])).resolve(), directory, tuple(words))


def _expand_response_files(words: Sequence[str], directory: Path, depth: int = 0) -> Iterator[str]:
    for word in words:
        path = directory / word[1:]
        if word.startswith("@") and depth < 8 and path.is_file():
            yield from _expand_response_files(
                shlex.split(path.read_text(errors="surrogateescape")), directory, depth + 1
            )
        else:
            yield word


def compile_flags(command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:
    """The flags that shape the code of a translation unit, with absolute paths.

    Left out: the compiler, inputs, outputs, dependency files, GPU targets, relocatable device code.
    ``defines`` are added as ``-D``.
    """
    flags: list[str] = []
    words = iter(command.arguments[1:])
    for word in words:
        if word in _DROPPED:
            continue
        if word in _DROPPED_WITH_VALUE:
            next(words, None)
            continue
        if word.startswith(_DROPPED_PREFIXES) and not word.startswith(_KEPT_PREFIXES):
            continue
        if not word.startswith("-") and (command.directory / word).resolve() == command.file:
            continue
        if word in _PATH_FLAGS:
            value = next(words, None)
            if value is not None:
                flags += [word, _absolute(value, command.directory)]
            continue
        flags.append(_absolute_joined(word, command.directory))
    return (*flags, *(f"-D{define}" for define in defines))


def _absolute(value: str, directory: Path) -> str:
    import os

    return os.path.normpath(directory / value)


def _absolute_joined(word: str, directory: Path) -> str:
    for flag in ("-I", "-isystem", "-iquote", "-include"):
        if word.startswith(flag) and len(word) > len(flag):
            return flag + _absolute(word[len(flag) :], directory)
    for flag in ("--sysroot=", "-ivfsoverlay="):
        if word.startswith(flag):
            return flag + _absolute(word[len(flag) :], directory)
    return word


def commands_for(path: Path, database: Sequence[CompileCommand]) -> list[CompileCommand]:
    """The entries that compile ``path`` itself; a file built twice has two."""
    wanted = path.resolve()
    return [command for command in database if command.file == wanted]


def with_file(command: CompileCommand, file: Path) -> CompileCommand:
    """The same command for another translation unit."""
    return replace(command, file=file)
