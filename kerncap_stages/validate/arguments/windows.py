"""Parts of a large memory: which of its chunks they lie in, and reading and replacing only these."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages._native import CHUNK_SIZE_BYTES
from kerncap_stages.digest import MemoryRef
from kerncap_stages.machine.cores import do_all
from kerncap_stages.store.chunks import read_chunk, read_chunk_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from kerncap_stages.store import Store, Transaction
    from kerncap_stages.validate.arguments.parts import Span

    Bytes = npt.NDArray[np.uint8]

CHUNK_BYTES = CHUNK_SIZE_BYTES  # those in which the store keeps memory
_ALIGNMENT = 16  # bytes, of the largest element


def choose_window(
    parts: Sequence[Span], starts: Iterable[int], most_bytes: int, seed: int
) -> tuple[Span, ...]:
    """Cut the parts of a region to some chunks of it, of at most ``most_bytes`` together, but at least one.

    starts: offsets to which pointers lead. Their chunks come first, as far as they fit, then the first one of
    each part. The others are chosen at random from the seed.
    """
    count = max(1, most_bytes // CHUNK_BYTES)
    places = (*starts, *(part.start for part in parts))
    firsts = list(dict.fromkeys(place // CHUNK_BYTES for place in places))[:count]
    last = max(part.end for part in parts)
    others = np.setdiff1d(np.arange(-(-last // CHUNK_BYTES)), firsts)
    generator = np.random.Generator(np.random.PCG64(seed))
    chosen = generator.choice(others, min(count - len(firsts), others.size), replace=False)
    pieces: list[list[int]] = []
    for chunk in sorted({*firsts, *chosen.tolist()}):
        low, high = chunk * CHUNK_BYTES, (chunk + 1) * CHUNK_BYTES
        if pieces and pieces[-1][1] == low:
            pieces[-1][1] = high
        else:
            pieces.append([low, high])
    cuts = (_cut(part, low, high) for part in parts for low, high in pieces)
    return tuple(cut for cut in cuts if cut.start < cut.end)


def _cut(part: Span, low: int, high: int) -> Span:
    """Cut a part to a range, from the beginning of an element on."""
    skipped = max(0, -(-(low - part.start) // _ALIGNMENT)) * _ALIGNMENT
    return replace(part, start=part.start + skipped, end=min(part.end, high))


@dataclass(frozen=True)
class Window:
    """The chunks of a memory of ``size_bytes`` that its parts lie in, one behind the other."""

    size_bytes: int
    parts: tuple[Span, ...]

    @cached_property
    def _chunks(self) -> list[int]:
        """The numbers of the chunks; without parts, of all."""
        if not self.parts:
            return list(range(-(-self.size_bytes // CHUNK_BYTES)))
        return sorted(
            {
                chunk
                for part in self.parts
                for chunk in range(part.start // CHUNK_BYTES, -(-part.end // CHUNK_BYTES))
            }
        )

    @property
    def is_whole(self) -> bool:
        """Whether the parts lie in all chunks."""
        return len(self._chunks) == -(-self.size_bytes // CHUNK_BYTES)

    @property
    def chunk_bytes(self) -> int:
        """The size of these chunks together."""
        return self.size_bytes if self.is_whole else len(self._chunks) * CHUNK_BYTES

    @property
    def inner_parts(self) -> tuple[Span, ...]:
        """The parts as they lie in what ``read`` returns."""
        places = {chunk: place for place, chunk in enumerate(self._chunks)}
        moved = []
        for part in self.parts:
            first = part.start // CHUNK_BYTES
            shift = (places[first] - first) * CHUNK_BYTES
            moved.append(replace(part, start=part.start + shift, end=part.end + shift))
        return tuple(moved)

    def read(self, store: Store, memory: MemoryRef) -> Bytes:
        """Read the chunks of a state of the memory: uint8[their sizes in bytes, together]."""
        if self.is_whole:
            return store.read_memory(memory.digest)
        chunks = read_chunk_list(store, memory)
        ends = [*accumulate(map(chunks.measure, self._chunks), initial=0)]
        content = np.empty(ends[-1], np.uint8)

        def fill(place: int) -> None:
            content[ends[place] : ends[place + 1]] = read_chunk(store, chunks, self._chunks[place])

        do_all([partial(fill, place) for place in range(len(self._chunks))])
        return content

    def put(self, store: Store, transaction: Transaction, memory: MemoryRef, content: Bytes) -> MemoryRef:
        """Stage the memory with other contents of the chunks. ``content``: as ``read`` returns it."""
        if self.is_whole:
            return MemoryRef.to(transaction.put_memory(content))
        chunks, own, done = read_chunk_list(store, memory), set(self._chunks), 0
        writer = transaction.open_memory_writer(chunks.size_bytes)
        started = []  # pieces that all cores hash
        for index, digest in enumerate(chunks.digests):
            size_bytes = chunks.measure(index)
            if index in own:
                started.append(writer.start(content[done : done + size_bytes]))
                done += size_bytes
            else:
                writer.append_same(size_bytes, [digest])
        for piece in started:
            piece.finish()
        return MemoryRef.to(writer.finish())
