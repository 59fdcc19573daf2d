"""The files that the answer of a search depends on, and whether they still are as they were."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.manifests.os_strings import os_string
from kerncap_stages.project.checkout import is_project

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.manifests import View
    from kerncap_stages.manifests.source import Source

SOURCE_SUFFIXES = frozenset(
    {
        ".hip",
        ".cu",
        ".cuh",
        ".cpp",
        ".cc",
        ".cxx",
        ".c",
        ".h",
        ".hh",
        ".hpp",
        ".hxx",
        ".inl",
        ".inc",
        ".ipp",
        ".tpp",
    }
)
_LISTED_SUFFIXES = SOURCE_SUFFIXES | {".py"}  # a Triton kernel is Python
_MAX_FILE_BYTES = 16 << 20  # a larger file is data, not source


@dataclass
class Consulted:
    """Digests of what was read; None for what was absent; of a folder, that of the list of its sources."""

    digests: dict[Path, str | None] = field(default_factory=dict)

    def read(self, path: Path) -> bytes | None:
        """The bytes of a file, or None if it cannot be read."""
        try:
            status = path.stat()
            if _is_no_text(status):
                self.digests[path] = _stamp(path)
                return None
            text = path.read_bytes()
        except OSError:
            self.digests[path] = None
            return None
        self.digests[path] = hashlib.sha256(text).hexdigest()
        return text

    def exists(self, path: Path) -> bool:
        """Whether a file is there; its absence is remembered."""
        self.read(path)
        return self.digests[path] is not None

    def missed(self, path: Path) -> None:
        """Remember that a file was looked for and is not there."""
        self.digests.setdefault(path, None)

    def sources(self, folder: Path) -> list[Path]:
        """The source files below a folder, Python's too: a new file is a change."""
        paths = list(source_files(folder))
        self.digests[folder] = listing_digest(paths)
        return paths


def listing_digest(paths: Sequence[Path]) -> str:
    """A digest of names, not of contents."""
    return hashlib.sha256(
        b"\0".join(str(path).encode(errors="surrogateescape") for path in paths)
    ).hexdigest()


def is_unchanged(path: Path, digest: str | None) -> bool:
    """Whether a consulted file or folder still is what it was."""
    if digest is None:
        return not path.exists()
    try:
        if path.is_dir():
            return listing_digest(list(source_files(path))) == digest
        status = path.stat()
        if _is_no_text(status):
            return _stamp(path) == digest
        return hashlib.sha256(path.read_bytes()).hexdigest() == digest
    except OSError:
        return False


def is_current(source: Source | View) -> bool:
    """Whether everything that a search consulted, or found absent, still is as it was."""
    return all(is_unchanged(Path(os_string(entry.path)), entry.digest) for entry in source.consulted)


def _is_no_text(status: os.stat_result) -> bool:
    """A device or a pipe may never end; what is large is data."""
    is_plain = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return not is_plain or status.st_size > _MAX_FILE_BYTES


def _stamp(path: Path) -> str:
    """Stands for the contents of a file that is too large to be read each time."""
    status = path.stat()
    return hashlib.sha256(f"{status.st_size} {status.st_mtime_ns}".encode()).hexdigest()


def source_files(root: Path) -> Iterator[Path]:
    """Every C++, HIP, CUDA or Python file below ``root``, sorted, hidden folders and projects left out."""
    for name_of_folder, files in source_folders(root):
        for name in files:
            if "." + name.rpartition(".")[2].lower() in _LISTED_SUFFIXES:
                yield Path(name_of_folder, name)


def source_folders(root: Path) -> Iterator[tuple[str, list[str]]]:
    """(folder, names of its files), sorted; without hidden folders, and projects, which hold copies."""
    seen: set[tuple[int, int]] = set()  # links may lead to a folder again
    for name_of_folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        try:
            status = Path(name_of_folder).stat()
        except OSError:  # removed meanwhile: a build's, or that of a process that ended
            folders.clear()
            continue
        known = (status.st_dev, status.st_ino) in seen
        seen.add((status.st_dev, status.st_ino))
        if known or is_project(Path(name_of_folder)):
            folders.clear()
            continue
        yield name_of_folder, sorted(files)
