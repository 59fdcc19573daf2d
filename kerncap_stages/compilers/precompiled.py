"""Finds the headers of a unit that an edit of one file does not change, so that they are parsed once.

clang can keep headers that it has parsed in a file (a precompiled header), if they come before everything
else. In a unit they often do not: the edited file may be a header itself, in the midst of others. So a header
of our own includes what the edited file and the files that lead to it include, and has nothing of their text
but macros. kc-locate compares whether the kernel's instructions stay the same.
Projects do the same: templates/hip/compile_kernel.sh.j2.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeGuard

from kerncap_stages.compilers.dependencies import find_first_error, parse_make_rule, run_compiler
from kerncap_stages.errors import DeviceError
from kerncap_stages.machine.temporary import TemporaryFolder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.compilers.installed import Compiler
    from kerncap_stages.compilers.kernel_unit import KernelUnit

_MARKER = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"(?: ([12]))?')
_ESCAPED = re.compile(r"\\(.)")
_INCLUDE = re.compile(r'#\s*include\s*(?:<([^>]+)>|"([^"]+)")')
_MACRO = re.compile(r"#\s*(?:define|undef)\s+(\w+)")
# Macros that a file defines only if they are not defined: most are guards against including it twice.
_ONCE = re.compile(r"^\s*#\s*pragma\s+once\b", re.MULTILINE)
_TESTED = re.compile(r"^\s*#\s*(?:ifndef\s+|if\s+!\s*defined\s*\(?\s*)(\w+)", re.MULTILINE)
# Templates that the headers themselves use are instantiated once, too.
TO_PRECOMPILE = ("-c", "-emit-llvm", "-Xclang", "-emit-pch", "-Xclang", "-fpch-instantiate-templates")
TO_USE = ("-Xclang", "-include-pch", "-Xclang")
WORTH_BYTES = 3 << 20  # of headers: twice as much as those of HIP and of C++ that all programs include
_UNWRITABLE = re.compile(r"[\r\ud800-\udfff]")


@dataclass
class _Included:
    """A file that the compiler reads, with its macros and the files that it includes, in their order.

    line: of the including file, behind the #include. spelled: as the #include has it, or "".
    """

    path: Path
    spelled: str = ""
    line: int = 0
    parts: list[str | _Included] = field(default_factory=list)
    mentioned: list[str] = field(default_factory=list)  # each #include, also of files that were read before

    def list_files(self) -> Iterator[_Included]:
        """Yield this file and all below it."""
        yield self
        for part in self.parts:
            if isinstance(part, _Included):
                yield from part.list_files()


@dataclass(frozen=True)
class Head:
    """The first lines of a file, up to its last #include."""

    path: Path
    line_count: int
    digest: str


@dataclass(frozen=True)
class Precompiled:
    """``text``: the header that is precompiled. It stands for ``heads`` as long as they stay as they are."""

    text: str
    heads: tuple[Head, ...]


def find_precompiled(compiler: Compiler, unit: KernelUnit, edited: Path) -> Precompiled | None:
    """Find what can be precompiled while ``edited`` is changed; None if that is nothing.

    Raises DeviceError if the compiler cannot be run.
    """
    with TemporaryFolder("preprocessed") as name:
        output = Path(name) / "unit.i"
        words = ("-w", "-E", "-dD", "-dI", "-o", str(output), str(unit.path))
        done = run_compiler(compiler.make_command(unit.target, unit.flags, *words), unit.directory)
        if done.returncode != 0:
            return None
        text = output.read_text(encoding="utf-8", errors="surrogateescape")
    way = _find_way(_read_tree(text, unit.path, unit.directory), edited.resolve())
    if not way:
        return None
    written = _Writer(way)
    lines = written.lines
    if not any(line.startswith("#include") for line in lines) or any(map(_UNWRITABLE.search, lines)):
        return None
    heads = dict.fromkeys(map(_read_head, written.heads))
    return Precompiled("".join(f"{line}\n" for line in lines), tuple(heads))


def precompile(compiler: Compiler, unit: KernelUnit, made: Precompiled, folder: Path) -> tuple[str, ...]:
    """Precompile a header in ``folder``, and return the flags with which a unit uses it.

    Raises DeviceError if that fails, or if the header includes a file whose text it is not to have.
    """
    header, output, rule = (folder / f"precompiled.{end}" for end in ("hpp", "pch", "d"))
    header.write_text(made.text, encoding="utf-8")
    listing = ("-dependency-file", str(rule), "-MT", "unit", "-sys-header-deps")
    told = [each for word in listing for each in ("-Xclang", word)]
    words = ("-w", *TO_PRECOMPILE, *told, "-o", str(output), str(header))
    done = run_compiler(compiler.make_command(unit.target, unit.flags, *words), unit.directory)
    if done.returncode != 0:
        raise DeviceError(f"the headers cannot be precompiled: {find_first_error(done.stderr)}")
    rest = rule.read_bytes().decode(errors="surrogateescape")
    read = {(unit.directory / path).resolve() for path in parse_make_rule(rest)}
    if not read.isdisjoint(head.path.resolve() for head in made.heads):
        raise DeviceError("the headers cannot be precompiled: they include the file that is edited")
    return (*TO_USE, str(output))


def _read_tree(text: str, unit: Path, directory: Path) -> _Included:
    """Read the compiler's preprocessed text: who includes whom, and which macros are defined where."""
    root = _Included(unit)
    stack = [root]
    spelled = ""
    for line in text.split("\n"):
        if not line.startswith("#"):
            continue
        marker = _MARKER.match(line)
        if marker is None:
            if line.startswith("#include"):
                spelled = line.partition(" /*")[0]
                stack[-1].mentioned.append(spelled)
            elif _MACRO.match(line):
                stack[-1].parts.append(line)
            continue
        number, name, kind = marker.groups()
        if kind == "1":
            path = directory / _ESCAPED.sub(r"\1", name)
            entered = _Included(path, spelled)
            stack[-1].parts.append(entered)
            stack.append(entered)
            spelled = ""
        elif kind == "2" and len(stack) > 1:
            stack.pop().line = int(number) - 1
    return root


def _find_way(root: _Included, edited: Path) -> list[_Included]:
    """Return the files from the unit to the first inclusion of a file; [] if there is none."""
    if root.path.resolve() == edited:
        return [root]
    for part in root.parts:
        if isinstance(part, _Included) and (rest := _find_way(part, edited)):
            return [root, *rest]
    return []


class _Writer:
    """Writes the header: what comes before the edited file, what it includes, then what comes after it.

    heads: the files of which not all is read before.
    """

    def __init__(self, way: Sequence[_Included]) -> None:
        self.lines: list[str] = []
        self.heads = list(way)
        self._open = _find_including(way)
        after: list[tuple[_Included, int]] = []
        for file, following in zip(way, [*way[1:], None], strict=True):
            headers = [i for i, part in enumerate(file.parts) if _is_header(part)]
            end = next((i for i in headers if file.parts[i] is following), max(headers, default=-1) + 1)
            tested = _find_tested(file.path)
            for part in file.parts[:end]:
                if isinstance(part, str) and _MACRO.findall(part)[0] not in tested:
                    self.lines.append(part)
                self._add(part, file)
            after.append((file, end + 1))
        for file, begin in reversed(after):
            for part in file.parts[begin:]:
                self._add(part, file)

    def _add(self, part: str | _Included, by: _Included) -> None:
        """Add a header; if it cannot be read twice, or includes the edited file, what else it includes."""
        if not _is_header(part):
            return
        if part.path.name not in self._open and _is_read_once(part):
            self.lines.append(_write_include(part, by))
            return
        self.heads.append(part)
        for each in part.parts:
            self._add(each, part)


def _is_read_once(file: _Included) -> bool:
    """Whether a header is guarded against being included twice."""
    defined = {found for part in file.parts if isinstance(part, str) for found in _MACRO.findall(part)}
    return not defined.isdisjoint(_find_tested(file.path)) or _ONCE.search(_read_text(file.path)) is not None


def _find_including(way: Sequence[_Included]) -> frozenset[str]:
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


def _is_header(part: str | _Included) -> TypeGuard[_Included]:
    """Whether a part is a file that an #include names, and not what the compiler reads by itself."""
    return isinstance(part, _Included) and part.spelled != ""


def _read_name(include: str) -> str:
    found = _INCLUDE.match(include)
    return PurePosixPath(found[1] or found[2]).name if found else ""


def _write_include(part: _Included, by: _Included) -> str:
    """Write an #include as its file has it; one that is relative to that file, by its whole path."""
    found = _INCLUDE.match(part.spelled)
    beside = by.path.parent / found[2] if found and found[2] else None
    if found is None or (beside is not None and beside.resolve() == part.path.resolve()):
        return f'#include "{os.path.normpath(part.path)}"'
    return found[0]


def _find_tested(path: Path) -> frozenset[str]:
    return frozenset(_TESTED.findall(_read_text(path)))


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _read_head(file: _Included) -> Head:
    count = max((part.line for part in file.parts if _is_header(part)), default=0)
    first = file.path.read_bytes().split(b"\n")[:count]
    text = b"".join(line + b"\n" for line in first)
    return Head(Path(os.path.normpath(file.path)), count, hashlib.sha256(text).hexdigest())
