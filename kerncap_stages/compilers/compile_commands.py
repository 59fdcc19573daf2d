"""Reads compile commands from a compilation database."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

DATABASE = "compile_commands.json"
_LAUNCHERS = frozenset({"ccache", "sccache", "distcc", "icecc"})
_SETTING = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_OPTIONS_FILE = frozenset({"-optf", "--options-file"})
_MAX_NESTED = 8
_MAX_BYTES = 512 << 20  # of a database: a large browser's has a tenth of this


@dataclass(frozen=True)
class CompileCommand:
    """One entry of a compilation database: response files expanded, launchers stripped."""

    file: Path  # absolute
    directory: Path  # absolute; relative flags are relative to it
    arguments: tuple[str, ...]  # the compiler first
    response_files: tuple[Path, ...] = ()  # files that the arguments name, existing or not
    compiler_is_given: bool = False  # the user named a compiler: no program of the command is run
    own_compiler: str | None = None  # the command's compiler, which is not run because it is in the build

    @property
    def compiler(self) -> str:
        """The compiler as the build named it."""
        return self.arguments[0]


def lies_in_build(program: str, command: CompileCommand) -> bool:
    """Whether a program is in the folder of a build or of its unit, and is not the one that PATH finds."""
    path = Path(os.path.normpath(command.directory / program))
    found = shutil.which(path.name)
    if "/" not in program or (found is not None and os.path.realpath(found) == os.path.realpath(path)):
        return False
    folders = (command.directory, command.file.parent)
    return any(place.is_relative_to(folder) for place in (path, path.resolve()) for folder in folders)


def replace_own_compiler(command: CompileCommand) -> CompileCommand:
    """Replace a compiler that is in the build's folder by the one of the same name on PATH.

    Another compiler's path, if it is relative to the build's folder, becomes absolute.
    """
    compiler, *rest = command.arguments
    if "/" not in compiler:
        return command
    if lies_in_build(compiler, command):
        return replace(command, arguments=(Path(compiler).name, *rest), own_compiler=compiler)
    return replace(command, arguments=(os.path.normpath(command.directory / compiler), *rest))


def find_database(
    start: Path, is_there: Callable[[Path], bool] = Path.is_file, name: str = DATABASE
) -> Path | None:
    """Find ``compile_commands.json`` in a folder or its ``build*`` and ``out*`` folders, or in a parent's.

    name: another file to find, also in ``build/temp*``, where Python's extensions are built.
    is_there: called for each place in order; ``build`` and ``out`` are asked about even if they do not exist
    yet.

    Compile commands name programs to run. So a file of another user is ignored, and so are folders from the
    first one on that anybody may write to, such as /tmp. The owner of ``start`` is trusted.
    """
    trusted = {os.geteuid(), 0, start.stat().st_uid}
    for folder in (start, *start.parents):
        if folder != start and not _is_only_writable_by(trusted, folder):
            break
        builds = sorted({folder / "build", *folder.glob("build*")})
        outs = sorted({folder / "out", *folder.glob("out*")})
        temporary = sorted(folder.glob("build*/temp*")) if name != DATABASE else []
        for candidate in (folder, *builds, *outs, *temporary):
            path = candidate / name
            if is_there(path) and path.is_file() and path.stat().st_uid in trusted:
                return path
        if (folder / ".git").exists():
            break
    return None


def _is_only_writable_by(users: set[int], folder: Path) -> bool:
    status = folder.stat()
    return status.st_uid in users and not status.st_mode & stat.S_IWOTH


def load_database(path: Path) -> list[CompileCommand]:
    """Read every entry, in the order of the file.

    Raises UsageError if the file is not a compilation database.
    """
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:  # a pipe or a device may never end
            raise ValueError(f"it is not a plain file of at most {_MAX_BYTES >> 20} MiB")
        entries = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
        if not isinstance(entries, list):
            raise TypeError("the top level is not a list")
        return read_entries(entries, path.parent)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"{path} is not a compilation database: {error}",
            hint="make one with cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON, or pass --compile-commands FILE",
        ) from error


def read_entries(entries: Sequence[dict[str, object]], base: Path) -> list[CompileCommand]:
    """Read the entries of a database. ``base``: the folder to which their folders are relative.

    Raises KeyError or ValueError for an invalid entry.
    """
    return [_read_entry(entry, base) for entry in entries]


def _read_entry(entry: dict[str, object], base: Path) -> CompileCommand:
    directory = (base / str(entry["directory"])).resolve()
    raw = entry.get("arguments")
    words = [str(word) for word in raw] if isinstance(raw, list) else shlex.split(str(entry["command"]))
    read: dict[Path, None] = {}
    words = list(_expand_response_files(words, directory, read))
    while len(words) > 1 and Path(words[0]).name in _LAUNCHERS:
        words.pop(0)
        while len(words) > 1 and _SETTING.fullmatch(
            words[0]
        ):  # ccache's own settings stand before the compiler
            words.pop(0)
    if not words:
        raise ValueError("an entry has no command")
    return CompileCommand((directory / str(entry["file"])).resolve(), directory, tuple(words), tuple(read))


def split_response_file(text: str) -> Iterator[str]:
    """Split a response file into words, as GCC and clang do.

    Unlike in a shell, a backslash escapes any character, also inside both kinds of quotes, and an open quote
    ends at the end of the file.
    """
    word: str | None = None
    quote = ""
    letters = iter(text)
    for letter in letters:
        if letter == "\\":
            word = (word or "") + next(letters, "")
        elif quote:
            quote, word = ("", word) if letter == quote else (quote, (word or "") + letter)
        elif letter in "'\"":
            quote, word = letter, word or ""
        elif not letter.isspace():
            word = (word or "") + letter
        elif word is not None:
            yield word
            word = None
    if word is not None:
        yield word


def _expand_response_files(
    words: Sequence[str], directory: Path, read: dict[Path, None], depth: int = 0
) -> Iterator[str]:
    remaining = iter(words)
    for word in remaining:
        name, equals, joined = word.partition("=")
        if name in _OPTIONS_FILE and (equals or word in _OPTIONS_FILE):
            # nvcc's option, whose value may list several files, separated by commas.
            files = joined if equals else next(remaining, "")
            marked = [f"@{file}" for file in files.split(",") if file]
            yield from _expand_response_files(marked, directory, read, depth)
            continue
        path = directory / word[1:]
        if word.startswith("@") and depth < _MAX_NESTED:
            read[path] = None
            if path.is_file():
                inner = list(split_response_file(path.read_text(errors="surrogateescape")))
                yield from _expand_response_files(inner, directory, read, depth + 1)
                continue
        yield word


def find_commands_for(path: Path, database: Sequence[CompileCommand]) -> list[CompileCommand]:
    """Find the entries that compile ``path`` itself; a file that is built twice has two."""
    wanted = path.resolve()
    return [command for command in database if command.file == wanted]
