"""Reading stored memory chunk by chunk, skipping what two states share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.digest import Digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.codec import ReadsObjects

    Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class ChunkList:
    """The stored contents of a piece of memory; ``digests[i]`` is None for a chunk of zeros."""

    size_bytes: int
    chunk_size_bytes: int
    digests: tuple[Digest | None, ...]

    def length(self, index: int) -> int:
        """Size of a chunk in bytes; the last may be short."""
        return min(self.chunk_size_bytes, self.size_bytes - index * self.chunk_size_bytes)


def read_chunk_list(store: ReadsObjects, reference: MemoryRef) -> ChunkList:
    """Read a chunk list; the store has verified its bytes."""
    content = json.loads(store.get(reference.digest))
    return ChunkList(
        size_bytes=content["size_bytes"],
        chunk_size_bytes=content["chunk_size_bytes"],
        digests=tuple(None if digest is None else Digest(digest) for digest in content["chunks"]),
    )


def read_chunk(store: ReadsObjects, chunks: ChunkList, index: int) -> Bytes:
    """uint8[length(index)], read-only."""
    digest = chunks.digests[index]
    if digest is None:
        return np.zeros(chunks.length(index), np.uint8)
    return np.frombuffer(store.get(digest), np.uint8)


def differing_chunks(
    store: ReadsObjects, reference: MemoryRef, *others: MemoryRef
) -> Iterator[tuple[int, tuple[Bytes, ...]]]:
    """(offset in bytes, the chunk in each state) wherever the states are not all the same.

    Raises ValueError if the states have different shapes.
    """
    lists = [read_chunk_list(store, each) for each in (reference, *others)]
    first = lists[0]
    if any(
        (each.size_bytes, each.chunk_size_bytes) != (first.size_bytes, first.chunk_size_bytes)
        for each in lists
    ):
        raise ValueError("states of one region differ in size or chunk size")
    for index in range(len(first.digests)):
        if len({each.digests[index] for each in lists}) > 1:
            # The expected state and the actual one are mostly the same, and are read once.
            chunks = {each.digests[index]: read_chunk(store, each, index) for each in reversed(lists)}
            yield index * first.chunk_size_bytes, tuple(chunks[each.digests[index]] for each in lists)
