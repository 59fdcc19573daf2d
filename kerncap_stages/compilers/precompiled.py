"""Finds the headers of a unit that an edit of one file does not change, so that they are parsed once.

clang can keep headers that it has parsed in a file (a precompiled header), if they come before everything
else. In a unit they often do not: the edited file may be a header itself, in the midst of others. So a header
of our own includes what is read before the edited file, and what the edited file includes. All files must be
preprocessed to the same text with it as without it.
Projects do the same: templates/hip/compile_kernel.sh.j2.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.compilers.dependencies import find_first_error, run_compiler
from kerncap_stages.compilers.inclusions import Included, read_inclusions
from kerncap_stages.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.compilers.installed import Compiler
    from kerncap_stages.compilers.kernel_unit import KernelUnit

TO_PRECOMPILE = ("-c", "-emit-llvm", "-Xclang", "-emit-pch")
TO_INSTANTIATE = ("-Xclang", "-fpch-instantiate-templates")  # and not when a unit uses it
TO_USE = ("-Xclang", "-include-pch", "-Xclang")
WORTH_BYTES = 7 << 20  # of headers: half as much again as those that any HIP program includes
_INCLUDE = re.compile(r'#\s*include\s*(?:<([^>]+)>|"([^"]+)")')
_MACRO = re.compile(r"#\s*(?:define|undef)\s+(\w+)")
# The two first directives of a file that is read once: a test, and the definition of what it tests.
_GUARD_DEFINED = re.compile(r"#\s*define\s+(\w+)\s*1?\s*(//.*|/\*.*)?")
_GUARD = re.compile(r"#\s*(?:ifndef\s+|if\s+!\s*defined\s*\(?\s*)(\w+)")
_DIRECTIVE = re.compile(r"^[ \t]*#.*", re.MULTILINE)
_ONCE = re.compile(r"^\s*#\s*pragma\s+once\b", re.MULTILINE)
# Of a file, of warnings, or of the loop that follows.
_HARMLESS = re.compile(
    r"#pragma\s+(once|(no)?unroll|GCC\s+(diagnostic|system_header)|clang\s+(diagnostic|loop))\b"
)
UNWRITABLE = re.compile(r"[\r\ud800-\udfff]")


@dataclass(frozen=True)
class Head:
    """The first lines of a file, up to its last #include."""

    path: Path
    line_count: int
    digest: str


@dataclass(frozen=True)
class Precompiled:
    """``text``: the header that is precompiled. It stands for ``heads`` as long as they stay as they are.

    instantiated: what the header ends with so that it also has the kernel's templates instantiated.
    """

    text: str
    heads: tuple[Head, ...]
    instantiated: Instantiated | None = None


@dataclass(frozen=True)
class Instantiated:
    """The edited file's text in a namespace of its own, and the digest of what that file declares."""

    text: str
    declared: str


def find_precompiled(compiler: Compiler, unit: KernelUnit, edited: Path, folder: Path) -> Precompiled | None:
    """Find what can be precompiled while ``edited`` is changed; None if that is nothing.

    folder: where the header is written for trying.
    Raises DeviceError if the compiler cannot be run, or a file cannot be read.
    """
    without = preprocess(compiler, unit, folder)
    way = without.find_way(edited.resolve()) if without is not None else []
    if without is None or not way:
        return None
    written = _Writer(way)
    lines = written.lines
    if written.problem or not any(map(_INCLUDE.match, lines)) or any(map(UNWRITABLE.search, lines)):
        return None
    text = "".join(f"{line}\n" for line in lines)
    header = folder / "precompiled.hpp"
    header.write_text(text, encoding="utf-8")
    made = preprocess(compiler, unit, folder, "-include", str(header))
    taken_apart = {file.path.resolve() for file in written.heads}
    if made is None or _collect(made, header, taken_apart) != _collect(without, header, taken_apart):
        return None
    try:
        heads = dict.fromkeys(map(_read_head, written.heads))
    except OSError as error:
        raise DeviceError(f"{error.filename} cannot be read: {error.strerror}") from error
    return Precompiled(text, tuple(heads))


def precompile(compiler: Compiler, unit: KernelUnit, made: Precompiled, folder: Path) -> tuple[str, ...]:
    """Precompile a header in ``folder``, and return the flags with which a unit uses it.

    Raises DeviceError if that fails.
    """
    name = "precompiled" if made.instantiated is None else "instantiated"
    header, output = folder / f"{name}.hpp", folder / f"{name}.pch"
    added = "" if made.instantiated is None else made.instantiated.text
    header.write_text(made.text + added, encoding="utf-8")
    words = ("-w", *TO_PRECOMPILE, *(TO_INSTANTIATE if added else ()), "-o", str(output), str(header))
    done = run_compiler(compiler.make_command(unit.target, unit.flags, *words), unit.directory)
    if done.returncode != 0:
        raise DeviceError(f"the headers cannot be precompiled: {find_first_error(done.stderr)}")
    return (*TO_USE, str(output))


def preprocess(compiler: Compiler, unit: KernelUnit, folder: Path, *extra: str) -> Included | None:
    """Preprocess a unit, and read who includes whom; None if the compiler refuses."""
    output = folder / "unit.i"
    words = ("-w", *extra, "-E", "-dD", "-dI", "-o", str(output), str(unit.path))
    done = run_compiler(compiler.make_command(unit.target, unit.flags, *words), unit.directory)
    return read_inclusions(output, unit.path, unit.directory) if done.returncode == 0 else None


def _collect(root: Included, header: Path, taken_apart: set[Path]) -> dict[Path, list[str]]:
    """Collect what each file is preprocessed to. Macros of files that are taken apart are defined twice."""
    found: dict[Path, list[str]] = {}
    for file in root.list_files():
        path = file.path.resolve()
        if path == header.resolve() or file.path.name.startswith("<"):
            continue
        lines = [part for part in file.parts if isinstance(part, str)]
        if path in taken_apart:
            lines = [line for line in lines if not _MACRO.match(line)]
        if lines:
            found.setdefault(path, []).extend(lines)
    return found


class _Writer:
    """Writes the header: what is read before the edited file, and what it includes.

    heads: the files that are not included themselves, but what they include, with their macros.
    problem: a file of them has text that may change what it includes: a pragma, an open namespace.
    """

    def __init__(self, way: Sequence[Included]) -> None:
        self.lines: list[str] = []
        self.heads = list(way)
        self.problem = False
        self._open = _find_including(way)
        for file, following in zip(way, [*way[1:], None], strict=True):
            headers = [i for i, part in enumerate(file.parts) if isinstance(part, Included) and part.spelled]
            end = next((i for i in headers if file.parts[i] is following), max(headers, default=-1) + 1)
            depth = self._add_parts(file, end)
            self.problem = self.problem or (following is not None and depth != 0)

    def _add_parts(self, file: Included, end: int) -> int:
        """Add the first parts of a file; return how many braces are open behind them."""
        guard = _find_guard(file.path)
        depth = 0
        for part in file.parts[:end]:
            if isinstance(part, Included):
                self.problem = self.problem or depth != 0
                self._add(part, file)
            elif macro := _MACRO.match(part):
                self.lines += [part] if macro[1] != guard else []
            elif part.startswith("#pragma"):
                self.problem = self.problem or _HARMLESS.match(part) is None
            else:
                depth += part.count("{") - part.count("}")
        return depth

    def _add(self, part: Included, by: Included) -> None:
        """Add a header; one that could be read twice, or that includes the edited file, is taken apart."""
        if not part.spelled:
            return  # the compiler reads it by itself
        if part.path.name not in self._open and _is_read_once(part.path):
            self.lines.append(_write_include(part, by))
        else:
            self.heads.append(part)
            self._add_parts(part, len(part.parts))


def _find_including(way: Sequence[Included]) -> frozenset[str]:
    """Find the names of the files on a way, and of all that include one of them, at any depth.

    Which file an #include of a file that was read before means is not told: by name it may be any.
    """
    found = {file.path.name for file in way}
    files = [(file.path.name, set(map(_read_name, file.mentioned))) for file in way[0].list_files()]
    before = 0
    while before < len(found):
        before = len(found)
        found.update(name for name, mentioned in files if not found.isdisjoint(mentioned))
    return frozenset(found)


def _is_read_once(path: Path) -> bool:
    return _find_guard(path) is not None or _ONCE.search(read_text(path)) is not None


def _find_guard(path: Path) -> str | None:
    """Find the macro that guards a file against being read twice."""
    first, second = ([*_DIRECTIVE.findall(read_text(path)), "", ""])[:2]
    tested, defined = _GUARD.match(first.strip()), _GUARD_DEFINED.fullmatch(second.strip())
    return tested[1] if tested and defined and tested[1] == defined[1] else None


def _read_name(include: str) -> str:
    found = _INCLUDE.match(include)
    return Path(found[1] or found[2]).name if found else ""


def _write_include(part: Included, by: Included) -> str:
    """Write an #include as its file has it; one that is relative to that file, by its whole path.

    The path is the compiler's, with every `..`, because __FILE__ is that path.
    """
    found = _INCLUDE.match(part.spelled)
    beside = by.path.parent / found[2] if found and found[2] else None
    if found is None or (beside is not None and beside.resolve() == part.path.resolve()):
        return f'#include "{part.path}"'
    return found[0]


def read_text(path: Path) -> str:
    """Read a source file; "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _read_head(file: Included) -> Head:
    count = max((part.line for part in file.parts if isinstance(part, Included) and part.spelled), default=0)
    first = file.path.read_bytes().split(b"\n")[:count]
    text = b"".join(line + b"\n" for line in first)
    return Head(Path(os.path.normpath(file.path)), count, hashlib.sha256(text).hexdigest())
