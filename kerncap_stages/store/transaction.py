"""Writing: everything that a transaction puts appears at once, or never."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from kerncap_stages import _native
from kerncap_stages.digest import Digest
from kerncap_stages.errors import UsageError
from kerncap_stages.store.artifacts import list_artifact

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Buffer


class Transaction:
    """Use as a context manager. Leaving it without ``publish`` throws everything away."""

    def __init__(self, root: Path, native: _native.ObjectStore, threads: int = 0) -> None:
        self._root = root
        self._native: _native.Transaction | None = _native.Transaction.begin(native, threads)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._native = None  # the native side removes what was not published

    def put_bytes(self, payload: bytes) -> Digest:
        """Stage one object."""
        return Digest(self._open().put(payload))

    def put_file(self, path: Path) -> Digest:
        """Stage a file whole: its digest is the file's own SHA-256."""
        import os

        return Digest(self._open().put_file(os.path.realpath(path)))

    def put_memory(self, buffer: Buffer) -> Digest:
        """Stage memory in chunks, on all cores, and return its chunk list.

        buffer: uint8[size_bytes] or anything C-contiguous, host memory; borrowed until return.
        """
        return Digest(self._open().put_memory(buffer))

    def memory_writer(self, size_bytes: int) -> MemoryWriter:
        """Stage memory that comes in pieces, in order."""
        return MemoryWriter(_native.MemoryWriter(self._open(), size_bytes))

    def adopt(self, fd: int, offset: int, size_bytes: int, digest: Digest) -> None:
        """Stage an object's frame from a file as it is, verified."""
        self._open().adopt(fd, offset, size_bytes, digest)

    def publish(self, manifest: bytes, kind: str, parents: Sequence[Digest] = ()) -> Digest:
        """Make everything staged durable and visible, then the manifest, then list it as an artifact."""
        native = self._open()
        native.publish()
        digest = Digest(native.put(manifest))
        native.publish()
        list_artifact(self._root, digest, kind, parents)
        return digest

    def publish_objects(self) -> None:
        """Make everything staged so far durable and visible without listing anything."""
        self._open().publish()

    def counts(self) -> dict[str, int]:
        """Bytes: ``zero_bytes``, ``known_bytes``, ``new_bytes`` of payload, ``stored_bytes`` on disk."""
        return self._open().counts()

    def _open(self) -> _native.Transaction:
        if self._native is None:
            raise UsageError("the transaction has ended")
        return self._native


class MemoryWriter:
    """Memory of a known size, in order, in pieces of any length."""

    def __init__(self, native: _native.MemoryWriter) -> None:
        self._native = native

    def append(self, piece: Buffer) -> None:
        """Add the next bytes; returns when they are staged and the buffer may be used again."""
        self._native.append(piece)

    def append_zeros(self, size_bytes: int) -> None:
        """Add zeros that nobody holds in memory."""
        self._native.append_zeros(size_bytes)

    def append_same(self, size_bytes: int, chunks: Sequence[Digest | None]) -> None:
        """Take the next bytes from another chunk list of the same size; whole chunks only."""
        self._native.append_same(size_bytes, list(chunks))

    def finish(self) -> Digest:
        """Stage the chunk list.

        Raises UsageError unless exactly the announced size was appended.
        """
        return Digest(self._native.finish())
