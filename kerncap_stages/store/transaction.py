"""Writes to the store in transactions: what a transaction publishes appears completely or not at all."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Self

from kerncap_stages import _native
from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactError, ArtifactNotFound, StoreError, UsageError
from kerncap_stages.manifests import SCHEMA_VERSIONS, parse, to_canonical
from kerncap_stages.store.artifacts import choose_time_ns, make_list_entry
from kerncap_stages.store.closure import MAX_LIST_BYTES, MAX_MANIFEST_BYTES, Closure, find_references, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Buffer

    from kerncap_stages.store.folder import Folder


class Transaction:
    """A context manager that stages and publishes objects; leaving it discards what was not published."""

    def __init__(self, folder: Folder, threads: int = 0) -> None:
        """Begin; ``threads`` 0 means one for each processor.

        Raises StoreError if the store cannot be written.
        """
        folder.require_ours()
        self._root = folder.root
        self._native: _native.Transaction | None = _native.Transaction.begin(folder.native, threads)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Discard what was not published; afterwards nothing can be staged."""
        native, self._native = self._native, None
        if native is not None:
            native.discard()  # now: a traceback may keep the object alive for long

    def put_bytes(self, payload: Buffer) -> Digest:
        """Stage one object."""
        return Digest(self._open().put(payload))

    def put_file(self, path: Path) -> Digest:
        """Stage a file as one object, whose digest is the file's SHA-256.

        Raises UsageError if the file does not exist or cannot be read.
        """
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
        except OSError as error:
            raise UsageError(
                f"cannot read {path}: {error.strerror}", hint="give a file that exists and can be read"
            ) from error
        return Digest(self._open().put_file(path))

    def put_memory(self, buffer: Buffer) -> Digest:
        """Stage memory in chunks, on all cores, and return the digest of its chunk list.

        buffer: uint8[size_bytes] or any C-contiguous host memory; borrowed until return.
        """
        return Digest(self._open().put_memory(buffer))

    def open_memory_writer(self, size_bytes: int) -> MemoryWriter:
        """Return a writer that stages a memory piece by piece, in order."""
        return MemoryWriter(_native.MemoryWriter(self._open(), size_bytes))

    def adopt(self, fd: int, frames: Sequence[tuple[int, int, str]]) -> None:
        """Stage objects whose stored form is in a file, at (offset, size in bytes, digest), on all cores.

        Raises DigestMismatch if one is damaged.
        """
        self._open().adopt(fd, frames)

    def find_lacking(self, digests: Iterable[Digest]) -> list[Digest]:
        """Return the objects that are neither staged nor stored, and protect the others from collection."""
        return [Digest(text) for text in self._open().require(list(digests))]

    def publish(self, manifest: bytes, kind: str, parents: Sequence[Digest] = ()) -> Digest:
        """Make all staged objects durable and visible, then the manifest, and list it as an artifact.

        What was published stays, even if the transaction fails later. Raises ArtifactError, naming the
        object, if the manifest refers to one that is neither staged nor stored; StoreError if the system
        fails to write.
        """
        require_canonical(manifest, kind, parents)
        digest = Digest(self._open().put(manifest))
        self.publish_listed([(digest, make_list_entry(kind, parents, choose_time_ns(self._root)))])
        return digest

    def publish_objects(self) -> None:
        """Make all staged objects durable and visible, and list nothing.

        Until the transaction ends nobody collects them; afterwards they stay only if an artifact needs them.
        """
        self._open().publish([], [])

    def get(self, digest: Digest, *, verify: bool = True) -> bytes:  # noqa: ARG002 - always verified
        """Return the payload of an object that is staged or stored, like ``Store.get``."""
        return self._open().read(digest, MAX_LIST_BYTES)

    def publish_listed(self, entries: Sequence[tuple[Digest, bytes]]) -> None:
        """Publish artifacts whose manifests are staged or stored, each with its list entry.

        Raises like ``publish``.
        """
        native = self._open()
        closure = self.require_closure([digest for digest, _ in entries])
        try:
            native.publish(entries, list(closure.kinds))
        except ArtifactNotFound as error:
            raise ArtifactError(
                f"cannot publish: {error}, but existed when the transaction began to use it",
                hint="a check may have set it aside as damaged: run this again to store it anew",
            ) from error

    def get_counts(self) -> dict[str, int]:
        """Return ``zero_bytes``, ``known_bytes``, ``new_bytes`` of payload, and ``stored_bytes`` on disk."""
        return self._open().counts()

    def require_closure(self, manifests: Iterable[Digest]) -> Closure:
        """Return all objects that manifests reach, staged or stored, and protect them from collection.

        Raises ArtifactError, naming the object, if one is missing or cannot be read.
        """
        native = self._open()
        closure = walk(manifests, lambda digest: native.read(digest, MAX_LIST_BYTES), native.require)
        for faults in (closure.missing, closure.unreadable):
            for digest, message in faults.items():
                raise ArtifactError(
                    f"cannot publish an artifact that refers to {digest.short}: {message}",
                    hint="make the artifacts that it was made from again; `kc-store check` names the faults",
                )
        return closure

    def _open(self) -> _native.Transaction:
        if self._native is None:
            raise StoreError("the transaction has ended", hint="begin another one")
        return self._native


class MemoryWriter:
    """Stages a memory of known size, in order, in pieces of any length."""

    def __init__(self, native: _native.MemoryWriter) -> None:
        self._native = native

    def append(self, piece: Buffer) -> None:
        """Append bytes; returns when they are staged and the buffer may be used again."""
        self._native.append(piece)

    def start(self, piece: Buffer) -> _native.StartedPiece:
        """Start to append bytes. When the returned piece is finished, they are staged and the buffer is free.

        Until then other threads work on it. They go on with the next piece when this one leaves them nothing
        to do. Finish all pieces before the memory.
        """
        return self._native.start(piece)

    def append_zeros(self, size_bytes: int) -> None:
        """Append zeros without a buffer."""
        self._native.append_zeros(size_bytes)

    def append_same(self, size_bytes: int, chunks: Sequence[Digest | None]) -> None:
        """Append bytes of another memory: ``chunks`` are its chunks that hold exactly these bytes."""
        self._native.append_same(size_bytes, chunks)

    def finish(self) -> Digest:
        """Stage the chunk list, and return its digest.

        Raises UsageError unless exactly the announced size was appended.
        """
        return Digest(self._native.finish())


def require_files(content: dict[str, Any], manifest: bytes) -> None:
    """Raise ManifestUnreadable for a malformed files manifest, since ``kc-store get`` writes files from it.

    Manifests of other kinds and other versions are not checked: their readers check them.
    """
    if content.get("kind") == "files" and content.get("schema_version") == SCHEMA_VERSIONS["files"]:
        parse(manifest, "the manifest")


def require_canonical(manifest: bytes, kind: str | None = None, parents: Sequence[Digest] = ()) -> None:
    """Raise an error unless a manifest is canonical, of this kind, and refers to its parents.

    In another spelling, references could be hidden from a collector. kind: None if the manifest is not
    listed.
    Raises ValueError, KeyError, TypeError or RecursionError for what is not a canonical manifest of that
    kind, UsageError for one that is too long, ManifestUnreadable for a malformed files manifest.
    """
    if len(manifest) > MAX_MANIFEST_BYTES:
        raise UsageError(
            f"the manifest has {len(manifest):,} bytes, but may have at most {MAX_MANIFEST_BYTES:,}",
            hint="store or capture less at once: a manifest lists every file or region",
        )
    content = json.loads(manifest)
    if to_canonical(content) != manifest:
        raise ValueError("the manifest is not canonical JSON")
    if kind is None:
        kind = str(content["kind"])
    if content["kind"] != kind:
        raise ValueError(f"the manifest is a {content['kind']}, not a {kind}")
    require_files(content, manifest)
    absent = set(parents) - {digest for _, digest in find_references(manifest)}
    if absent:
        raise ValueError(f"the manifest does not refer to its parent {min(absent)}")
