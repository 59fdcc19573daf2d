"""Writes the content of a reference, verified; chunks of zeros become holes if the file can have them."""

from __future__ import annotations

import fcntl
import os
import stat
from typing import TYPE_CHECKING

from kerncap_stages.digest import FileRef, ManifestRef, MemoryRef
from kerncap_stages.errors import DigestMismatch, Refused, UsageError
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.files import Files
from kerncap_stages.store.room import require_room

if TYPE_CHECKING:
    from collections.abc import Callable

    from kerncap_stages.digest import Digest, Reference
    from kerncap_stages.store.store import Store

_ZEROS = bytes(1 << 20)
_MAX_AT_ONCE_BYTES = 1 << 20
_MAX_HELD_BYTES = 8 << 20  # a longer object is read twice: once to verify it, once to write it


def find_content(store: Store, what: str, path: str | None) -> Reference:
    """Return the reference that ``what`` is, or that of an artifact's file ``path``, or of its manifest.

    Raises UsageError if the artifact has no file ``path``.
    """
    for kind in (FileRef, MemoryRef, ManifestRef):
        if what.startswith(kind.prefix):
            try:
                return kind.to(what.removeprefix(kind.prefix).strip().lower())
            except ValueError as error:
                raise UsageError(
                    f"{what} is not a reference: it needs {kind.prefix} and 64 hexadecimal digits",
                    hint="`kc-show --json` of an artifact shows its references",
                ) from error
    digest = store.resolve(what)
    if path is None:
        return ManifestRef.to(digest)

    for file in load_as(store, digest, Files).files:
        if file.path == path:
            return file.content
    raise UsageError(f"{digest.short} holds no file {path}", hint=f"`kc-show {digest.short}` lists its files")


def measure_content(store: Store, content: Reference) -> tuple[int, int]:
    """Return (size in bytes, bytes that are not in chunks of zeros); (0, 0) for an absent or damaged object.

    Raises like ``Store.get`` if a chunk list cannot be read.
    """
    if not isinstance(content, MemoryRef):
        size_bytes = store.read_declared_size(content.digest)
        return size_bytes, size_bytes
    size_bytes, chunk_bytes, chunks = store.read_chunk_list(content.digest)
    zero_bytes = sum(
        min(chunk_bytes, size_bytes - index * chunk_bytes)
        for index, chunk in enumerate(chunks)
        if chunk is None
    )
    return size_bytes, size_bytes - zero_bytes


def write_content(store: Store, content: Reference, fd: int) -> int:
    """Write the content of a reference to a file descriptor, verifying each object; returns its size.

    If it raises an error for damage, the caller must discard what was written. Raises Refused if the file
    system does not support files of that size.
    """

    def write_object(digest: Digest, size_bytes: int) -> int:
        if size_bytes > _MAX_AT_ONCE_BYTES:
            return store.stream(digest, fd)
        # Starting a stream takes longer than writing a small file.
        payload = store.get(digest)
        _write_all(fd, payload)
        return len(payload)

    return _write(store, content, fd, write_object)


def print_content(store: Store, content: Reference, fd: int) -> None:
    """Write the content of a reference to an output that cannot be taken back: no byte of a damaged object.

    Raises Refused if ``fd`` is a file whose file system has too little free space.
    """
    if stat.S_ISREG(os.fstat(fd).st_mode):
        require_room(fd, [(content, measure_content(store, content)[1])])

    def print_object(digest: Digest, size_bytes: int) -> int:
        if size_bytes <= _MAX_HELD_BYTES:
            payload = store.get(digest)
            _write_all(fd, payload)
            return len(payload)
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
            store.stream(digest, nowhere.fileno())
        return store.stream(digest, fd)

    _write(store, content, fd, print_object)


def _write(store: Store, content: Reference, fd: int, write_object: Callable[[Digest, int], int]) -> int:
    """Write the content. ``write_object`` gets a digest and its expected size; returns the written size."""
    if not isinstance(content, MemoryRef):
        return write_object(content.digest, store.read_declared_size(content.digest))
    size_bytes, chunk_bytes, chunks = store.read_chunk_list(content.digest)
    holes = _can_have_holes(fd)
    if holes:
        _require_length(fd, size_bytes)
    try:
        for index, chunk in enumerate(chunks):
            here = min(chunk_bytes, size_bytes - index * chunk_bytes)
            if chunk is not None:
                _write_chunk(store, chunk, here, write_object)
            elif holes:
                os.lseek(fd, here, os.SEEK_CUR)
            else:
                _write_zeros(fd, here)
    finally:
        if holes:
            os.ftruncate(
                fd, os.lseek(fd, 0, os.SEEK_CUR)
            )  # for zeros at the end: seeking alone does not extend the file
    return size_bytes


def _write_chunk(
    store: Store, chunk: Digest, size_bytes: int, write_object: Callable[[Digest, int], int]
) -> None:
    # Check the size before writing anything. A size of 0 may mean damage, which reading then reports.
    declared_bytes = store.read_declared_size(chunk) or size_bytes
    if declared_bytes != size_bytes or write_object(chunk, size_bytes) != size_bytes:
        raise DigestMismatch(
            f"chunk {chunk.short} does not have the {size_bytes} bytes that its memory lists",
            hint="`kc-store check` names the damaged artifacts",
        )


def _can_have_holes(fd: int) -> bool:
    """Whether zeros can be skipped: ``fd`` is a file, and writing goes on at its end."""
    facts = os.fstat(fd)
    if not stat.S_ISREG(facts.st_mode) or fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND:
        return False
    return facts.st_size <= os.lseek(fd, 0, os.SEEK_CUR)


def _require_length(fd: int, size_bytes: int) -> None:
    """Raise Refused if the file cannot grow by this size. It stays short, so it never looks complete."""
    before = os.fstat(fd).st_size
    try:
        os.ftruncate(fd, os.lseek(fd, 0, os.SEEK_CUR) + size_bytes)
        os.ftruncate(fd, before)
    except OSError as error:
        raise Refused(
            f"the file system cannot store a file of {size_bytes:,} bytes: {error.strerror}",
            hint="give a place on another file system",
        ) from error


def _write_zeros(fd: int, size_bytes: int) -> None:
    while size_bytes > 0:
        size_bytes -= os.write(fd, memoryview(_ZEROS)[:size_bytes])


def _write_all(fd: int, payload: bytes) -> None:
    view = memoryview(payload)
    while view:
        view = view[os.write(fd, view) :]
