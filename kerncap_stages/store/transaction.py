"""Writing: what a transaction publishes appears whole, or not at all."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Self

from kerncap_stages import _native
from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactError, ArtifactNotFound, StoreError, UsageError
from kerncap_stages.manifests import SCHEMA_VERSIONS, parse
from kerncap_stages.store.artifacts import list_entry, next_time_ns
from kerncap_stages.store.closure import MOST_LIST_BYTES, MOST_MANIFEST_BYTES, Closure, references, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Buffer

    from kerncap_stages.store.folder import Folder


class Transaction:
    """Use as a context manager: leaving it throws away what was not published."""

    def __init__(self, folder: Folder, threads: int = 0) -> None:
        """Begin; ``threads`` 0 means as many as there are processors.

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
            native.discard()  # now, not when the last frame of a traceback forgets it

    def put_bytes(self, payload: Buffer) -> Digest:
        """Stage one object."""
        return Digest(self._open().put(payload))

    def put_file(self, path: Path) -> Digest:
        """Stage a file whole: its digest is the file's own SHA-256.

        Raises UsageError if there is no such file, or none that can be read.
        """
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
        except OSError as error:
            raise UsageError(
                f"cannot read {path}: {error.strerror}", hint="give a file that is there"
            ) from error
        return Digest(self._open().put_file(path))

    def put_memory(self, buffer: Buffer) -> Digest:
        """Stage memory in chunks, on all cores, and return its chunk list.

        buffer: uint8[size_bytes] or anything C-contiguous, host memory; borrowed until return.
        """
        return Digest(self._open().put_memory(buffer))

    def memory_writer(self, size_bytes: int) -> MemoryWriter:
        """Stage memory that comes in pieces, in order."""
        return MemoryWriter(_native.MemoryWriter(self._open(), size_bytes))

    def adopt(self, fd: int, frames: Sequence[tuple[int, int, str]]) -> None:
        """Stage objects whose frames lie in a file: (offset, size in bytes, digest). Verified, on all cores.

        Raises DigestMismatch if one is damaged.
        """
        self._open().adopt(fd, frames)

    def lacking(self, digests: Iterable[Digest]) -> list[Digest]:
        """Those of objects that are neither staged nor stored; from now on nobody collects the others."""
        return [Digest(text) for text in self._open().require(list(digests))]

    def publish(self, manifest: bytes, kind: str, parents: Sequence[Digest] = ()) -> Digest:
        """Make everything staged durable and visible, and the manifest after it, listed as an artifact.

        What was published stays, whatever happens later. Raises ArtifactError, naming the object, if the
        manifest refers to one that is neither staged nor stored; StoreError if the disk refuses.
        """
        require_canonical(manifest, kind, parents)
        digest = Digest(self._open().put(manifest))
        self.publish_listed([(digest, list_entry(kind, parents, next_time_ns(self._root)))])
        return digest

    def publish_objects(self) -> None:
        """Make everything staged durable and visible, and list nothing.

        While the transaction lives nobody collects it; afterwards it is kept only by an artifact.
        """
        self._open().publish([], [])

    def get(self, digest: Digest, *, verify: bool = True) -> bytes:  # noqa: ARG002 - always verified
        """The payload of an object that is staged or stored, like ``Store.get``."""
        return self._open().read(digest, MOST_LIST_BYTES)

    def publish_listed(self, entries: Sequence[tuple[Digest, bytes]]) -> None:
        """Publish artifacts whose manifests are staged or stored, each with its line of the list.

        Raises like ``publish``.
        """
        native = self._open()
        closure = self.require_closure([digest for digest, _ in entries])
        try:
            native.publish(entries, list(closure.kinds))
        except ArtifactNotFound as error:
            raise ArtifactError(
                f"cannot publish: {error}, and was there when it was relied on",
                hint="a check may have set it aside as damaged: run this again, and it is stored anew",
            ) from error

    def counts(self) -> dict[str, int]:
        """Bytes: ``zero_bytes``, ``known_bytes``, ``new_bytes`` of payload, ``stored_bytes`` on disk."""
        return self._open().counts()

    def require_closure(self, manifests: Iterable[Digest]) -> Closure:
        """All that manifests reach, staged or stored; from now on nobody collects it.

        Raises ArtifactError, naming the object, if one is missing or cannot be read.
        """
        native = self._open()
        closure = walk(manifests, lambda digest: native.read(digest, MOST_LIST_BYTES), native.require)
        for faults in (closure.missing, closure.unreadable):
            for digest, message in faults.items():
                raise ArtifactError(
                    f"cannot publish an artifact that refers to {digest.short}: {message}",
                    hint="make what it was made from again; `kc-store check` names what is wrong",
                )
        return closure

    def _open(self) -> _native.Transaction:
        if self._native is None:
            raise StoreError("the transaction has ended", hint="begin another one")
        return self._native


class MemoryWriter:
    """Memory of a known size, in order, in pieces of any length."""

    def __init__(self, native: _native.MemoryWriter) -> None:
        self._native = native

    def append(self, piece: Buffer) -> None:
        """Add the next bytes; returns when they are staged and the buffer may be used again."""
        self._native.append(piece)

    def start(self, piece: Buffer) -> _native.StartedPiece:
        """Add the next bytes; once what is returned is finished, they are staged and the buffer is free.

        Until then other threads work on it, and go on to what is started next where nothing is left to do.
        Every piece has to be finished before the memory is.
        """
        return self._native.start(piece)

    def append_zeros(self, size_bytes: int) -> None:
        """Add zeros that nobody holds in memory."""
        self._native.append_zeros(size_bytes)

    def append_same(self, size_bytes: int, chunks: Sequence[Digest | None]) -> None:
        """Take the next bytes from another memory: ``chunks`` are those that hold just these bytes, whole."""
        self._native.append_same(size_bytes, chunks)

    def finish(self) -> Digest:
        """Stage the chunk list.

        Raises UsageError unless exactly the announced size was appended.
        """
        return Digest(self._native.finish())


def require_files(content: dict[str, Any], manifest: bytes) -> None:
    """The store's own kind of manifest, which ``kc-store get`` writes files by, must be well formed.

    Raises ManifestUnreadable. Those of another version than ours, and of other kinds, are for others to read.
    """
    if content.get("kind") == "files" and content.get("schema_version") == SCHEMA_VERSIONS["files"]:
        parse(manifest, "the manifest")


def require_canonical(manifest: bytes, kind: str | None = None, parents: Sequence[Digest] = ()) -> None:
    """Another spelling could hide references from a collector, and the list must tell the truth.

    kind: none, if the manifest is on no list. Raises ValueError, KeyError, TypeError or RecursionError for
    what is no canonical manifest of that kind, UsageError for one that is too long, ManifestUnreadable for a
    list of files that is malformed.
    """
    if len(manifest) > MOST_MANIFEST_BYTES:
        raise UsageError(
            f"the manifest has {len(manifest):,} bytes, and the most is {MOST_MANIFEST_BYTES:,}",
            hint="put or record less at once: a manifest describes files or regions, one by one",
        )
    content = json.loads(manifest)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    if text.encode() + b"\n" != manifest:
        raise ValueError("the manifest is not canonical JSON")
    if kind is None:
        kind = str(content["kind"])
    if content["kind"] != kind:
        raise ValueError(f"the manifest is a {content['kind']}, not a {kind}")
    require_files(content, manifest)
    absent = set(parents) - {digest for _, digest in references(manifest)}
    if absent:
        raise ValueError(f"the manifest does not refer to its parent {min(absent)}")
