"""What a reference leads to, written out: verified, zeros as holes where a file can have them."""

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
_MOST_AT_ONCE_BYTES = 1 << 20
_MOST_HELD_BYTES = 8 << 20  # a longer object is read twice: once to verify it, once to write it


def find_content(store: Store, what: str, path: str | None) -> Reference:
    """Return what ``what`` refers to: a reference, a file that was put, or an artifact's manifest.

    Raises UsageError if there is no such file in the artifact.
    """
    for kind in (FileRef, MemoryRef, ManifestRef):
        if what.startswith(kind.prefix):
            try:
                return kind.to(what.removeprefix(kind.prefix).strip().lower())
            except ValueError as error:
                raise UsageError(
                    f"{what} is not a reference: {kind.prefix} and 64 hexadecimal digits are wanted",
                    hint="`kc-show --json` of an artifact has its references",
                ) from error
    digest = store.resolve(what)
    if path is None:
        return ManifestRef.to(digest)

    for file in load_as(store, digest, Files).files:
        if file.path == path:
            return file.content
    raise UsageError(f"{digest.short} holds no file {path}", hint=f"`kc-show {digest.short}` lists its files")


def content_sizes(store: Store, content: Reference) -> tuple[int, int]:
    """(size in bytes, those that no hole can stand for); (0, 0) of an object that is absent or damaged.

    Raises like ``Store.get`` if a chunk list cannot be read.
    """
    if not isinstance(content, MemoryRef):
        size_bytes = store.declared_size(content.digest)
        return size_bytes, size_bytes
    size_bytes, chunk_bytes, chunks = store.chunk_list(content.digest)
    zero_bytes = sum(
        min(chunk_bytes, size_bytes - index * chunk_bytes)
        for index, chunk in enumerate(chunks)
        if chunk is None
    )
    return size_bytes, size_bytes - zero_bytes


def write_content(store: Store, content: Reference, fd: int) -> int:
    """Write what a reference leads to to a file descriptor, each object verified; returns its size.

    What was written before damage was met must be thrown away by the caller. Raises Refused if the
    file system has no files of that size.
    """

    def write_object(digest: Digest, size_bytes: int) -> int:
        if size_bytes > _MOST_AT_ONCE_BYTES:
            return store.stream(digest, fd)
        # To set up a stream takes longer than to write a small file.
        payload = store.get(digest)
        _write_all(fd, payload)
        return len(payload)

    return _write(store, content, fd, write_object)


def print_content(store: Store, content: Reference, fd: int) -> None:
    """Write what a reference leads to where nothing can be taken back: no byte of a damaged object.

    Raises Refused if ``fd`` is a file whose file system has not the room.
    """
    if stat.S_ISREG(os.fstat(fd).st_mode):
        require_room(fd, [(content, content_sizes(store, content)[1])])

    def print_object(digest: Digest, size_bytes: int) -> int:
        if size_bytes <= _MOST_HELD_BYTES:
            payload = store.get(digest)
            _write_all(fd, payload)
            return len(payload)
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
            store.stream(digest, nowhere.fileno())
        return store.stream(digest, fd)

    _write(store, content, fd, print_object)


def _write(store: Store, content: Reference, fd: int, write_object: Callable[[Digest, int], int]) -> int:
    """write_object: given a digest and the size that it should have, returns the size that it wrote."""
    if not isinstance(content, MemoryRef):
        return write_object(content.digest, store.declared_size(content.digest))
    size_bytes, chunk_bytes, chunks = store.chunk_list(content.digest)
    holes = _takes_holes(fd)
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
            )  # zeros at the end, which nothing was written behind
    return size_bytes


def _write_chunk(
    store: Store, chunk: Digest, size_bytes: int, write_object: Callable[[Digest, int], int]
) -> None:
    # A wrong size is met before anything is written. 0 is also that of what cannot be read: reading tells.
    declared_bytes = store.declared_size(chunk) or size_bytes
    if declared_bytes != size_bytes or write_object(chunk, size_bytes) != size_bytes:
        raise DigestMismatch(
            f"chunk {chunk.short} has not the {size_bytes} bytes that its memory says",
            hint="`kc-store check` tells which artifacts are damaged",
        )


def _takes_holes(fd: int) -> bool:
    """Whether zeros need not be written: a file that has nothing behind the place of the next write."""
    facts = os.fstat(fd)
    if not stat.S_ISREG(facts.st_mode) or fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND:
        return False
    return facts.st_size <= os.lseek(fd, 0, os.SEEK_CUR)


def _require_length(fd: int, size_bytes: int) -> None:
    """The file keeps its length: what is killed half-way must not look whole."""
    before = os.fstat(fd).st_size
    try:
        os.ftruncate(fd, os.lseek(fd, 0, os.SEEK_CUR) + size_bytes)
        os.ftruncate(fd, before)
    except OSError as error:
        raise Refused(
            f"the file system takes no file of {size_bytes:,} bytes: {error.strerror}",
            hint="give a place on a file system that does",
        ) from error


def _write_zeros(fd: int, size_bytes: int) -> None:
    while size_bytes > 0:
        size_bytes -= os.write(fd, memoryview(_ZEROS)[:size_bytes])


def _write_all(fd: int, payload: bytes) -> None:
    view = memoryview(payload)
    while view:
        view = view[os.write(fd, view) :]
