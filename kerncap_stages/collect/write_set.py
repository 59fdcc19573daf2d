"""Finds the bytes of a region that a kernel changed: chunks that differ, then the bytes inside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.store.chunks import read_chunk, read_chunk_list, read_differing_chunks

if TYPE_CHECKING:
    import numpy.typing as npt

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests import ReadsObjects

    Bytes = npt.NDArray[np.uint8]
    Places = npt.NDArray[np.int64]

# Ranges that are at most this far apart are joined: otherwise a strided write would be a list of millions.
GAP_BYTES = 64
# A region with more ranges than this gets larger gaps.
MAX_RANGES = 4096


@dataclass(frozen=True)
class WrittenRanges:
    """Ascending ``(offset, length)`` pairs that cover every changed byte, and the number of changed bytes."""

    ranges: tuple[tuple[int, int], ...]
    size_bytes: int


def find_written_ranges(store: ReadsObjects, before: MemoryRef, after: MemoryRef) -> WrittenRanges:
    """Compare two states of one region. Chunks with the same digest are not read."""
    if before == after:
        return WrittenRanges((), 0)
    begins, ends, changed = [], [], 0
    for offset, (old, new) in read_differing_chunks(store, before, after):
        found = find_changed_ranges(old, new, offset)
        changed += found.size_bytes
        begins += [start for start, _ in found.ranges]
        ends += [start + length for start, length in found.ranges]
    return _limit(np.asarray(begins, np.int64), np.asarray(ends, np.int64), changed)


def read_part(store: ReadsObjects, memory: MemoryRef, offset: int, size_bytes: int) -> Bytes:
    """Read a part of a memory: uint8[size_bytes]. Raises ValueError if it is not inside the memory."""
    chunks = read_chunk_list(store, memory)
    if not 0 <= offset <= offset + size_bytes <= chunks.size_bytes:
        raise ValueError(f"{size_bytes} bytes at {offset} are not inside {chunks.size_bytes}")
    part = np.empty(size_bytes, np.uint8)
    done = 0
    while done < size_bytes:
        index, begin = divmod(offset + done, chunks.chunk_size_bytes)
        piece = read_chunk(store, chunks, index)[begin : begin + size_bytes - done]
        part[done : done + len(piece)] = piece
        done += len(piece)
    return part


def find_changed_ranges(old: Bytes, new: Bytes, offset: int = 0) -> WrittenRanges:
    """Compare two states: uint8[n] each. ``offset`` is added to the offsets that are found."""
    places = np.flatnonzero(old != new)
    if len(places) == 0:
        return WrittenRanges((), 0)
    breaks = np.flatnonzero(np.diff(places) > GAP_BYTES + 1)
    starts = places[np.concatenate(([0], breaks + 1))] + offset
    stops = places[np.concatenate((breaks, [len(places) - 1]))] + 1 + offset
    return _limit(starts, stops, len(places))


def _limit(starts: Places, stops: Places, changed: int) -> WrittenRanges:
    """Join ranges that are close; with larger gaps until there are at most MAX_RANGES."""
    if len(starts) == 0:
        return WrittenRanges((), 0)
    gap = GAP_BYTES
    starts, stops = _join(starts, stops, gap)
    while len(starts) > MAX_RANGES:
        gap *= 4
        starts, stops = _join(starts, stops, gap)
    ranges = zip(starts.tolist(), (stops - starts).tolist(), strict=True)
    return WrittenRanges(tuple(ranges), changed)


def _join(starts: Places, stops: Places, gap: int) -> tuple[Places, Places]:
    apart = np.flatnonzero(starts[1:] - stops[:-1] > gap)
    return starts[np.concatenate(([0], apart + 1))], stops[np.concatenate((apart, [len(stops) - 1]))]
