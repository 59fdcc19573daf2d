"""Records the files that the result of a search depends on, and checks whether they have changed."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.manifests.os_strings import to_os_string
from kerncap_stages.project.folder import is_project

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.manifests import View
    from kerncap_stages.manifests.source import Source

HEADER_SUFFIXES = frozenset({".cuh", ".h", ".hh", ".hpp", ".hxx", ".inl", ".inc", ".ipp", ".tpp"})
SOURCE_SUFFIXES = HEADER_SUFFIXES | {".hip", ".cu", ".cpp", ".cc", ".cxx", ".c"}
_LISTED_SUFFIXES = SOURCE_SUFFIXES | {".py"}  # a Triton kernel is Python
_MAX_FILE_BYTES = 16 << 20  # a larger file is data, not source


@dataclass
class Consulted:
    """Digests of files that were read; None for absent files; for a folder, that of its list of sources."""

    digests: dict[Path, str | None] = field(default_factory=dict)

    def read(self, path: Path) -> bytes | None:
        """Read a file, and record its digest; None if it cannot be read."""
        try:
            status = path.stat()
            if _is_not_text(status):
                self.digests[path] = _make_stamp(path)
                return None
            text = path.read_bytes()
        except OSError:
            self.digests[path] = None
            return None
        self.digests[path] = hashlib.sha256(text).hexdigest()
        return text

    def exists(self, path: Path) -> bool:
        """Whether a file exists; its digest or its absence is recorded."""
        self.read(path)
        return self.digests[path] is not None

    def note_absent_file(self, path: Path) -> None:
        """Record that a file was searched and does not exist."""
        self.digests.setdefault(path, None)

    def list_sources(self, folder: Path) -> list[Path]:
        """List the source files below a folder, Python's too, and record the list: a new file is a change."""
        paths = list(list_source_files(folder))
        self.digests[folder] = hash_names(paths)
        return paths


def hash_names(paths: Sequence[Path]) -> str:
    """Return a digest of file names, not of contents."""
    return hashlib.sha256(
        b"\0".join(str(path).encode(errors="surrogateescape") for path in paths)
    ).hexdigest()


def is_unchanged(path: Path, digest: str | None) -> bool:
    """Whether a recorded file or folder still has its digest."""
    if digest is None:
        return not path.exists()
    try:
        if path.is_dir():
            return hash_names(list(list_source_files(path))) == digest
        status = path.stat()
        if _is_not_text(status):
            return _make_stamp(path) == digest
        return hashlib.sha256(path.read_bytes()).hexdigest() == digest
    except OSError:
        return False


def is_current(source: Source | View) -> bool:
    """Whether nothing that a search read or found absent has changed."""
    return all(is_unchanged(Path(to_os_string(entry.path)), entry.digest) for entry in source.consulted)


def _is_not_text(status: os.stat_result) -> bool:
    """Whether a file must not be read as text: a device or a pipe may never end, and a large file is data."""
    is_plain = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return not is_plain or status.st_size > _MAX_FILE_BYTES


def _make_stamp(path: Path) -> str:
    """Make a digest of size and time, in place of the contents of a file that is too large to read."""
    status = path.stat()
    return hashlib.sha256(f"{status.st_size} {status.st_mtime_ns}".encode()).hexdigest()


def list_source_files(root: Path) -> Iterator[Path]:
    """Yield every C++, HIP, CUDA or Python file below ``root``, except in hidden folders and projects."""
    for name_of_folder, files in walk_source_folders(root):
        for name in files:
            if "." + name.rpartition(".")[2].lower() in _LISTED_SUFFIXES:
                yield Path(name_of_folder, name)


def walk_source_folders(root: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield (folder, names of its files), sorted, without hidden folders and generated projects."""
    seen: set[tuple[int, int]] = set()  # links may lead to the same folder again
    for name_of_folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        try:
            status = Path(name_of_folder).stat()
        except OSError:  # the folder was removed meanwhile
            folders.clear()
            continue
        known = (status.st_dev, status.st_ino) in seen
        seen.add((status.st_dev, status.st_ino))
        if known or is_project(Path(name_of_folder)):
            folders.clear()
            continue
        yield name_of_folder, sorted(files)
