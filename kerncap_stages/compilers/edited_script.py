"""Finds what a project can precompile while headers of it are edited, and whether that still holds.

kc-locate does the same for edits of the kernel's file. Which headers will be edited nobody knows before.
A project has a copy of this file, and of those that it imports: it needs Python alone. compile_kernel.sh runs
it there, in the project's folder.

usage: python3 headers write WORK KERNEL_FILE EDITED...
           writes edited.json, and edited.hpp and edited_instantiated.hpp if they can be made
       python3 headers choose
           prints which of the headers fits the sources as they are; exits with 1 if they must be written anew
       python3 headers same CODE CODE
           exits with 1 if two code objects differ in what is loaded
"""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerncap_stages.compilers.copied_text import copy_edited
from kerncap_stages.compilers.declared_script import digest_declared
from kerncap_stages.compilers.header_text import read_head, read_text, write_header
from kerncap_stages.compilers.inclusions import read_inclusions
from kerncap_stages.compilers.later_names import UnknownNamesError, list_later_names, list_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kerncap_stages.compilers.inclusions import Included

_UNIT = "translation_unit.cpp"
_STATE = "edited.json"
_PLAIN, _INSTANTIATED = "edited", "edited_instantiated"
MADE_HEADERS = (f"{_PLAIN}.hpp", f"{_INSTANTIATED}.hpp")
# Of the unit's lines. Below, it takes less to precompile all headers, while only the kernel is edited.
_WORTH_SHARE = 0.5
_LOADED = 2  # SHF_ALLOC


class _Project:
    """The project in a folder."""

    def __init__(self, folder: Path, work: Path) -> None:
        self.folder, self._work = folder.resolve(), work
        roots = json.loads((folder / "vfs.yaml").read_text(encoding="utf-8"))["roots"]
        self._originals = {self.folder / root["external-contents"]: Path(root["name"]) for root in roots}

    def preprocess(self, *extra: str) -> Included | None:
        """Read the unit; None if the compiler refuses."""
        output = self._work / "unit.i"
        words = ("-w", *extra, "-E", "-dD", "-dI", "-o", str(output), _UNIT)
        done = subprocess.run(
            ("sh", "compile_kernel.sh", "--compile", *words), cwd=self.folder, stderr=subprocess.DEVNULL
        )
        return read_inclusions(output, self.folder / _UNIT, self.folder) if done.returncode == 0 else None

    def rename(self, path: Path) -> Path:
        """Return the path at which the compiler is asked for a file of the project."""
        return self._originals.get(path.resolve(), path)

    def list_heads(self, files: Iterable[Included]) -> Iterator[tuple[str, int, str]]:
        """Yield name, number of lines and digest of the first lines of those files that are the project's."""
        for file in files:
            name = self.name(file.path)
            if name is not None:
                head = read_head(file)
                yield name, head.line_count, head.digest

    def name(self, path: Path) -> str | None:
        """Return a file's name in the project; None for others."""
        path = path.resolve()
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else None


def _write(work: Path, *names: str) -> int:
    """Write the headers, and what must not change for them to hold. The kernel's file counts as edited."""
    project = _Project(Path(), work)
    edited = {(project.folder / name).resolve() for name in names}
    state: dict[str, Any] = {"heads": [], "files": {}}
    without = project.preprocess()
    if without is not None:
        made = write_header(without, project.preprocess, edited, work, rename=project.rename)
        if made is not None and made.share > _WORTH_SHARE:
            Path(f"{_PLAIN}.hpp").write_text(made.text, encoding="utf-8")
            state["heads"] = [list(each) for each in dict.fromkeys(project.list_heads(made.apart))]
        kernel = Path("headers/kernel.txt")
        if kernel.is_file():
            name = kernel.read_text(encoding="utf-8")
            state["files"] = _instantiate(project, without, edited, name, work)
    Path(_STATE).write_text(json.dumps(state), encoding="utf-8")
    return 0


def _instantiate(
    project: _Project, without: Included, edited: set[Path], kernel: str, work: Path
) -> dict[str, dict[str, Any]]:
    """Write the header that has templates instantiated; return what must not change in each file."""
    made = write_header(without, project.preprocess, edited, work, in_order=False, rename=project.rename)
    copied = None if made is None else copy_edited(made.text, project.preprocess, edited, kernel, work)
    if made is None or copied is None or made.share < _WORTH_SHARE:
        return {}
    apart = {file.path.resolve() for file in made.apart}
    files = {}
    try:
        for path in sorted(edited):
            text = read_text(path)
            names = list_later_names(without, path, apart) - list_names(text)
            name = project.name(path)
            files[str(name)] = {"declared": digest_declared(text), "names": sorted(names)}
    except UnknownNamesError:
        return {}
    Path(f"{_INSTANTIATED}.hpp").write_text(made.text + copied, encoding="utf-8")
    return files


def _choose() -> int:
    """Print the name of the header that can be used; "none" if there is none; nothing if it does not fit.

    If it does not fit an edit, this build parses all headers: to write other ones takes longer. If the next
    build finds the same changes, the exit code 1 asks for other ones.
    """
    is_instantiated = Path(f"{_INSTANTIATED}.hpp").is_file()
    if not is_instantiated and not Path(f"{_PLAIN}.hpp").is_file():
        print("none")
        return 0
    state = json.loads(Path(_STATE).read_text(encoding="utf-8"))
    made = _INSTANTIATED if is_instantiated else _PLAIN
    changes = list(_list_changes(state["files"]) if is_instantiated else _list_changed_heads(state["heads"]))
    if not changes:
        print(made)
        return 0
    if changes == state.get("met"):
        return 1
    Path(_STATE).write_text(json.dumps({**state, "met": changes}), encoding="utf-8")
    print(f"{changes[0][0]}: all headers are parsed", file=sys.stderr)
    return 0


def _list_changed_heads(heads: list[tuple[str, int, str]]) -> Iterator[list[str]]:
    """Yield a message for each file whose first lines changed, and the digest of these lines."""
    for name, count, digest in heads:
        first = Path(name).read_bytes().split(b"\n")[:count]
        now = hashlib.sha256(b"".join(line + b"\n" for line in first)).hexdigest()
        if now != digest:
            yield [f"{name} was changed in its first {count} lines, up to its last #include", now]


def _list_changes(files: dict[str, dict[str, Any]]) -> Iterator[list[str]]:
    """Yield a message for each change that may alter what names mean, and what identifies the change."""
    for name, kept in files.items():
        text = read_text(Path(name))
        declared = digest_declared(text)
        if declared != kept["declared"]:
            yield [f"{name} declares other functions than before", declared]
        later = sorted(list_names(text).intersection(kept["names"]))
        if later:
            yield [f"{name} may use {later[0]}, which a later header declares", " ".join(later)]


def _list_loaded(code: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield address and contents of the sections of an ELF file that are loaded."""
    (table,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    for number in range(count):
        kind, flags, address, offset, length = struct.unpack_from("<I4Q", code, table + number * size + 4)
        if flags & _LOADED:
            yield address, b"" if kind == 8 else code[offset : offset + length]  # 8: SHT_NOBITS


def _same(one: Path, other: Path) -> int:
    first, second = one.read_bytes(), other.read_bytes()
    return 0 if first == second or list(_list_loaded(first)) == list(_list_loaded(second)) else 1


def main(words: list[str]) -> int:
    """Run a command, and return the exit code."""
    match words:
        case ["write", work, *names]:
            return _write(Path(work), *names)
        case ["choose"]:
            return _choose()
        case ["same", one, other]:
            return _same(Path(one), Path(other))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
