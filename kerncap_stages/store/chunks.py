"""Reads stored memory chunk by chunk, and only those chunks in which several states differ."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.errors import ArtifactError, DigestMismatch
from kerncap_stages.store.closure import parse_chunk_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kerncap_stages.digest import Digest, MemoryRef
    from kerncap_stages.manifests import ReadsObjects

    Bytes = npt.NDArray[np.uint8]

CAPTURE_AGAIN = "it cannot be repaired: capture the kernel again"
_MOST_KEPT_BYTES = 8 << 20  # a few chunks


@dataclass(frozen=True)
class ChunkList:
    """The chunks of a stored memory; ``digests[i]`` is None for a chunk of zeros."""

    size_bytes: int
    chunk_size_bytes: int
    digests: tuple[Digest | None, ...]

    def measure(self, index: int) -> int:
        """Return the size of a chunk in bytes; the last may be shorter than the others."""
        return min(self.chunk_size_bytes, self.size_bytes - index * self.chunk_size_bytes)


class RecentObjects:
    """Reads objects, and keeps those that were read last: several looks at a state need the same."""

    def __init__(self, store: ReadsObjects) -> None:
        self._store = store
        self._kept: dict[Digest, bytes] = {}  # the one that was used last at the end
        self._size_bytes = 0
        self._lock = Lock()

    def get(self, digest: Digest, *, verify: bool = True) -> bytes:
        """Return an object like ``Store.get``."""
        with self._lock:
            found = self._kept.pop(digest, None)
            if found is not None:
                self._kept[digest] = found
                return found
        read = self._store.get(digest, verify=verify)
        with self._lock:
            self._size_bytes += 0 if digest in self._kept else len(read)
            self._kept[digest] = read
            while self._size_bytes > _MOST_KEPT_BYTES:
                self._size_bytes -= len(self._kept.pop(next(iter(self._kept))))
        return read


def read_chunk_list(store: ReadsObjects, reference: MemoryRef) -> ChunkList:
    """Read a chunk list; the store verifies its bytes.

    Raises DigestMismatch if the object is not a chunk list.
    """
    size_bytes, chunk_size_bytes, digests = parse_chunk_list(store.get(reference.digest), reference.digest)
    return ChunkList(size_bytes, chunk_size_bytes, digests)


def read_chunk(store: ReadsObjects, chunks: ChunkList, index: int) -> Bytes:
    """Return a chunk as uint8[measure(index)], read-only.

    Raises DigestMismatch if the object has another size, ArtifactNotFound if it is missing.
    """
    digest, length = chunks.digests[index], chunks.measure(index)
    if digest is None:
        return np.zeros(length, np.uint8)
    chunk = np.frombuffer(store.get(digest), np.uint8)
    if chunk.size != length:
        raise DigestMismatch(
            f"object {digest.short} has {chunk.size} bytes, but is listed as a chunk of {length}",
            hint=CAPTURE_AGAIN,
        )
    return chunk


def read_range(store: ReadsObjects, reference: MemoryRef, start: int, end: int) -> Bytes:
    """Return the bytes of a memory from ``start`` to ``end``, uint8[end - start], reading only their chunks.

    Raises ValueError if they are not in the memory.
    """
    chunks = read_chunk_list(store, reference)
    if not 0 <= start <= end <= chunks.size_bytes:
        raise ValueError(f"bytes {start} to {end} of a memory of {chunks.size_bytes}")
    found = np.empty(end - start, np.uint8)
    for index in range(start // chunks.chunk_size_bytes, -(-end // chunks.chunk_size_bytes)):
        base = index * chunks.chunk_size_bytes
        low, high = max(start, base), min(end, base + chunks.measure(index))
        found[low - start : high - start] = read_chunk(store, chunks, index)[low - base : high - base]
    return found


@dataclass(frozen=True)
class DifferingChunks:
    """The chunks in which not all states of a memory are the same, by their numbers."""

    store: ReadsObjects
    lists: tuple[ChunkList, ...]  # of each state
    numbers: tuple[int, ...]

    def offset(self, number: int) -> int:
        """Return where a chunk begins, in bytes."""
        return number * self.lists[0].chunk_size_bytes

    def read(self, number: int) -> tuple[Bytes, ...]:
        """Return a chunk in each state."""
        # Mostly the expected state and the actual one are the same chunk, which is read only once.
        chunks = {each.digests[number]: read_chunk(self.store, each, number) for each in reversed(self.lists)}
        return tuple(chunks[each.digests[number]] for each in self.lists)


def find_differing_chunks(store: ReadsObjects, reference: MemoryRef, *others: MemoryRef) -> DifferingChunks:
    """Find the chunks in which not all states are the same.

    Raises ArtifactError if the states have different sizes or chunk sizes.
    """
    lists = [read_chunk_list(store, each) for each in (reference, *others)]
    first = lists[0]
    if any(
        (each.size_bytes, each.chunk_size_bytes) != (first.size_bytes, first.chunk_size_bytes)
        for each in lists
    ):
        names = ", ".join(each.digest.short for each in (reference, *others))
        raise ArtifactError(f"states of one region differ in size or chunk size: {names}", hint=CAPTURE_AGAIN)
    digests = zip(*(each.digests for each in lists), strict=True)
    return DifferingChunks(
        store, tuple(lists), tuple(number for number, each in enumerate(digests) if len({*each}) > 1)
    )


def read_differing_chunks(
    store: ReadsObjects, reference: MemoryRef, *others: MemoryRef
) -> Iterator[tuple[int, tuple[Bytes, ...]]]:
    """Yield (offset in bytes, the chunk in each state) for what ``find_differing_chunks`` finds."""
    found = find_differing_chunks(store, reference, *others)
    for number in found.numbers:
        yield found.offset(number), found.read(number)
