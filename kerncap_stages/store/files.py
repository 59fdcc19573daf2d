"""Puts files and folders of the user into a store, and writes them out again.

Names that a manifest cannot hold (control characters, bytes that are not UTF-8), links that lead out of their
folder, and devices are refused, with their names: nothing is left out silently.
"""

from __future__ import annotations

import os
import shutil
import stat
from typing import TYPE_CHECKING

from kerncap_stages import __version__
from kerncap_stages.digest import FileRef, MemoryRef
from kerncap_stages.errors import DeviceError, DigestMismatch, Refused, UsageError
from kerncap_stages.manifests import dump
from kerncap_stages.manifests.files import Files, StoredFile, StoredLink
from kerncap_stages.store.contents import measure_content, write_content
from kerncap_stages.store.room import require_room

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import FileIO
    from pathlib import Path

    from kerncap_stages.digest import Digest
    from kerncap_stages.store import Store, Transaction

# Larger files are stored in chunks: files share equal chunks, and damage to a chunk stays in it.
_MAX_WHOLE_FILE_BYTES = 4 << 20
_PIECE_BYTES = 64 << 20


def put_path(store: Store, path: Path) -> tuple[Digest, Files]:
    """Publish a file or a folder.

    Raises UsageError if it does not exist or contains the store, Refused if it contains what cannot be
    stored.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint="give a file or a folder") from error
    if stat.S_ISDIR(mode) and store.root.resolve().is_relative_to(path.resolve()):
        raise UsageError(
            f"{path} contains the store {store.root} itself",
            hint="put a folder without the store, or use another store: --store DIR",
        )
    name = path.resolve().name
    files: list[StoredFile] = []
    links: list[StoredLink] = []
    empty: list[str] = []
    with store.begin_transaction() as transaction:
        if stat.S_ISDIR(mode):
            for below in _walk(path):
                inside = below.relative_to(path).as_posix()
                if below.is_symlink():
                    links.append(_make_link(below, inside))
                elif below.is_dir():
                    empty.append(_check_name(inside, below))
                else:
                    files.append(_put_file(transaction, below, inside))
        else:
            files.append(_put_file(transaction, path, name))
        manifest = Files(
            made_by=f"kerncap-stages {__version__}",
            name=_check_name(name or "root", path),
            is_folder=stat.S_ISDIR(mode),
            files=tuple(sorted(files, key=lambda file: file.path)),
            links=tuple(sorted(links, key=lambda link: link.path)),
            empty_folders=tuple(sorted(empty)),
        )
        return transaction.publish(dump(manifest), manifest.kind, ()), manifest


def get_files(store: Store, manifest: Files, destination: Path) -> None:
    """Write the file or folder to ``destination``, where it appears complete or not at all.

    Chunks of zeros become holes. Raises UsageError if ``destination`` exists, DigestMismatch or
    ArtifactNotFound for damage, Refused if the file system cannot hold it.
    """
    if os.path.lexists(destination):
        raise UsageError(f"{destination} exists", hint="give a new name: nothing is ever overwritten")
    if not destination.parent.is_dir():
        raise UsageError(
            f"{destination.parent} is not a folder", hint="create it first, or give another place"
        )
    _require_possible(store, manifest, destination.parent)
    partial = destination.with_name(f".{destination.name}.{os.getpid()}.partial")
    try:
        if manifest.is_folder:
            _get_folder(store, manifest, partial)
        else:
            _get_file(store, manifest.files[0], partial)
        partial.rename(destination)
    finally:
        if partial.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
        else:
            partial.unlink(missing_ok=True)


def _walk(folder: Path) -> Iterator[Path]:
    """Yield all files, links and empty folders below a folder, in order; links are not followed."""
    waiting = [folder]  # not recursive: folders may be nested deeper than Python's stack allows
    while waiting:
        path = waiting.pop()
        try:
            # Before Python 3.14 these raise OSError for a path that is too long.
            is_folder = path == folder or (path.is_dir() and not path.is_symlink())
        except OSError as error:
            raise _make_read_error(path, error) from error
        if not is_folder:
            yield path
            continue
        try:
            with os.scandir(path) as entries:
                names = sorted((entry.name for entry in entries), reverse=True)
        except OSError as error:
            raise _make_read_error(path, error) from error
        waiting += [path / name for name in names]
        if not names and path != folder:
            yield path


def _make_read_error(path: Path, error: OSError) -> DeviceError:
    return DeviceError(
        f"cannot read {path}: {error.strerror}", hint="make it readable, or put a folder without it"
    )


def _check_name(inside: str, path: Path) -> str:
    if not inside.isprintable() or "\\" in inside:
        raise Refused(
            f"{path} has a name that cannot be stored: control characters, a backslash, or not UTF-8",
            hint="rename it",
        )
    return inside


def _make_link(path: Path, inside: str) -> StoredLink:
    target = os.readlink(path)  # noqa: PTH115 - a Path would normalize the target
    try:
        return StoredLink(path=_check_name(inside, path), target=target)
    except ValueError as error:
        raise Refused(
            f"{path} is a link to {target}, which leads out of the folder",
            hint="put a folder without it, or replace it by a copy of its target",
        ) from error


def _put_file(transaction: Transaction, path: Path, inside: str) -> StoredFile:
    _check_name(inside, path)
    try:
        # Not blocking: opening a pipe without a writer would wait for ever.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise Refused(f"{path} is not a regular file", hint="put a folder without it")
            content = _put_content(transaction, file, facts.st_size)
    except OSError as error:
        raise _make_read_error(path, error) from error
    if content is None:
        raise DeviceError(f"{path} changed while it was read", hint="put it again when nothing writes to it")
    return StoredFile(
        path=inside,
        content=content,
        size_bytes=facts.st_size,
        executable=bool(facts.st_mode & stat.S_IXUSR),
    )


def _put_content(transaction: Transaction, file: FileIO, size_bytes: int) -> FileRef | MemoryRef | None:
    """Stage an open file; None if its size is not ``size_bytes``."""
    large = size_bytes > _MAX_WHOLE_FILE_BYTES
    writer = transaction.open_memory_writer(size_bytes) if large else None
    piece = memoryview(bytearray(min(_PIECE_BYTES, size_bytes) + 1))
    whole = b""
    done = 0
    while done <= size_bytes and (count := file.readinto(piece[: size_bytes - done + 1])):
        done += count
        if done <= size_bytes and writer is not None:
            writer.append(piece[:count])
        elif done <= size_bytes:
            whole += piece[:count]
    if done != size_bytes:
        return None
    return MemoryRef.to(writer.finish()) if writer else FileRef.to(transaction.put_bytes(whole))


def _get_folder(store: Store, manifest: Files, folder: Path) -> None:
    folder.mkdir()
    for empty in manifest.empty_folders:
        _make_folders(folder / empty)
    made = ""  # files are in order, so those of one folder follow each other
    for file in manifest.files:
        path, above = folder / file.path, file.path.rpartition("/")[0]
        if above != made:
            _make_folders(path.parent)
            made = above
        _get_file(store, file, path)
    # Links come last, so that nothing is ever written through one.
    for link in manifest.links:
        path = folder / link.path
        _make_folders(path.parent)
        path.symlink_to(link.target)


def _make_folders(path: Path) -> None:
    """Make a folder and those above it. Not Path.mkdir, which is recursive and fails for deep folders."""
    absent = []
    while not path.is_dir():
        absent.append(path)
        path = path.parent
    for folder in reversed(absent):
        folder.mkdir()


def _require_size(file: StoredFile, size_bytes: int) -> None:
    if size_bytes != file.size_bytes:
        what = f"{file.path} has {size_bytes} bytes, but its manifest says {file.size_bytes}"
        raise DigestMismatch(what, hint="put the folder again")


def _require_possible(store: Store, manifest: Files, place: Path) -> None:
    """Raise an error before anything is written if the files do not fit: small objects may expand a lot."""
    contents = []
    for file in manifest.files:
        size_bytes, written_bytes = measure_content(store, file.content)
        if size_bytes > file.size_bytes or isinstance(file.content, MemoryRef):
            _require_size(file, size_bytes)
        contents.append((file.path, written_bytes))
    require_room(place, contents)


def _get_file(store: Store, file: StoredFile, path: Path) -> None:
    mode = 0o777 if file.executable else 0o666
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        written = write_content(store, file.content, fd)
    finally:
        os.close(fd)
    _require_size(file, written)
