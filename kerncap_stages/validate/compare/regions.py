"""Compares a region's state after a variant with the expected state.

The baseline's pre-state and post-state show which bytes the baseline wrote. These are compared, by their type
if there are bounds. If the variant changed any other byte, that is a stray write, whatever the bounds are;
only ``rounding`` accepts elements within the bounds that lie between written ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.machine.cores import map_all
from kerncap_stages.store.chunks import find_differing_chunks, read_differing_chunks
from kerncap_stages.validate.compare.bounds import INTEGER_TYPES
from kerncap_stages.validate.compare.elements import (
    Bounds,
    Difference,
    compare_elements,
    find_dtype,
    mark_within_bounds,
    merge,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests import ReadsObjects
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.store.chunks import DifferingChunks

    Bytes = npt.NDArray[np.uint8]

HEAT_BINS = 1024
_MAX_STRAY_RANGES = 1000


@dataclass(frozen=True)
class States:
    """A region's states: at the start of the run, after the baseline, after the variant.

    ``witness``: the region before and after a replay of the baseline from a perturbed state. Bytes that
    differ there are written, too, even if in this run they got the value that they had before.
    """

    pre: MemoryRef
    expected: MemoryRef
    actual: MemoryRef
    size_bytes: int
    witness: tuple[MemoryRef, MemoryRef] | None = None

    @property
    def every(self) -> tuple[MemoryRef, ...]:
        """All of them, the two of the witness last."""
        return self.pre, self.expected, self.actual, *(self.witness or ())


def find_states(region: Region, expected: MemoryRef, actual: MemoryRef) -> States:
    """Return the states of a region that has a pre-state."""
    if region.pre is None:
        raise ValueError("the region has no pre-state")
    return States(region.pre, expected, actual, region.size_bytes)


@dataclass(frozen=True)
class RegionDifference:
    """How a variant's state differs from the expected one, in a region or a part of it.

    ``written_bytes``: written by the baseline. ``stray``: (offset, length) of bytes that the variant changed
    outside of these. ``heat``: differing bytes in each of at most HEAT_BINS equal parts. Offsets count from
    the region's base.
    """

    written_bytes: int
    differing_bytes: int
    difference: Difference
    stray: tuple[tuple[int, int], ...]
    stray_bytes: int
    heat: tuple[int, ...]

    def is_within(self, limit: float) -> bool:
        """Whether elements differ, by at most a limit."""
        return self.difference.is_finite and 0.0 < self.difference.max_absolute <= limit

    @property
    def passed(self) -> bool:
        """Whether all elements are within the bounds and there are no stray writes."""
        return self.difference.passed and self.stray_bytes == 0


def compare_states(
    store: ReadsObjects,
    states: States,
    element_type: str,
    bounds: Bounds,
    window: tuple[int, int] | None = None,
    *,
    rounding: bool = False,
) -> RegionDifference:
    """Compare a region, or the part of it from ``window[0]`` to ``window[1]``.

    ``element_type`` is ``bytes`` or one of bounds.ELEMENT_TYPES; the first element begins where the window
    does. ``rounding``: elements between written ones may differ, too, within the bounds.
    """
    low, high = window or (0, states.size_bytes)
    how = (
        _How("uint8", Bounds(), low, high)
        if element_type == "bytes"
        else _How(element_type, bounds, low, high)
    )
    chunks = find_differing_chunks(store, *states.every)
    if rounding:
        how = replace(how, among=_find_written_range(chunks, how.element_bytes, low, high))
    pieces = map_all(partial(_compare_chunk, chunks, how), _choose_chunks(chunks, low, high))
    heat = np.sum([piece.heat for piece in pieces if piece.heat is not None], axis=0, initial=0)
    return RegionDifference(
        written_bytes=sum(piece.written_bytes for piece in pieces),
        differing_bytes=sum(piece.differing_bytes for piece in pieces),
        difference=merge([piece.difference for piece in pieces]),
        stray=tuple(islice((each for piece in pieces for each in piece.stray), _MAX_STRAY_RANGES)),
        stray_bytes=sum(piece.stray_bytes for piece in pieces),
        heat=tuple(map(int, heat)) if np.any(heat) else (),
    )


@dataclass(frozen=True)
class _How:
    """How a window of a region is compared; ``among``: these elements may be rounded otherwise."""

    element_type: str
    bounds: Bounds
    low: int
    high: int
    among: range = range(0)

    @property
    def element_bytes(self) -> int:
        return find_dtype(self.element_type).itemsize

    @property
    def bins(self) -> int:
        return max(1, min(HEAT_BINS, -(-(self.high - self.low) // self.element_bytes)))


@dataclass(frozen=True)
class _Piece:
    """What ``RegionDifference`` says, of one chunk. heat: int64[bins] of ``_How``; None: nothing differs."""

    written_bytes: int
    difference: Difference
    differing_bytes: int = 0
    stray: Sequence[tuple[int, int]] = ()
    stray_bytes: int = 0
    heat: npt.NDArray[np.int64] | None = None


def _compare_chunk(chunks: DifferingChunks, how: _How, number: int) -> _Piece:
    start, (pre, expected, actual, *witness) = _read_piece(chunks, how.low, how.high, number)
    written = _mark_written(pre, expected, witness)
    differs = expected != actual
    in_element = _widen(written, how.element_bytes)
    if how.among:
        first = (start - how.low) // how.element_bytes
        in_element |= _mark_rounded(actual, expected, differs & ~in_element, how, first)
    written_bytes = int(np.count_nonzero(written))
    if how.element_type in INTEGER_TYPES and not differs.any():
        # The usual case for a right variant; skipping the rest makes it fast.
        return _Piece(written_bytes, Difference(int(np.count_nonzero(in_element)) // how.element_bytes))
    outside = differs & ~in_element
    places = (start - how.low + np.flatnonzero(differs)) * how.bins // max(how.high - how.low, 1)
    return _Piece(
        written_bytes,
        _compare_written(actual, expected, in_element, how.element_type, how.bounds, start),
        int(np.count_nonzero(differs & in_element)),
        [(start + first, length) for first, length in _find_ranges(outside)[:_MAX_STRAY_RANGES]],
        int(np.count_nonzero(outside)),
        np.bincount(places, minlength=how.bins) if places.size else None,
    )


def _mark_written(pre: Bytes, expected: Bytes, witness: Sequence[Bytes]) -> npt.NDArray[np.bool_]:
    written: npt.NDArray[np.bool_] = pre != expected
    if witness:
        written |= witness[0] != witness[1]
    return written


def _find_written_range(chunks: DifferingChunks, size: int, low: int, high: int) -> range:
    """Return the range of elements in a window from the first written one to the last.

    It is padded on both sides by the largest gap between two written elements, because a kernel may write
    only every n-th element.
    """
    first, last, gap = -1, -1, 0
    for number in _choose_chunks(chunks, low, high):
        start, (pre, expected, _, *witness) = _read_piece(chunks, low, high, number)
        in_element = _widen(_mark_written(pre, expected, witness), size)
        at = (start - low) // size + np.flatnonzero(in_element[: in_element.size // size * size : size])
        if at.size:
            apart = np.diff(at, prepend=at[0] if last < 0 else last)
            first, last, gap = at[0] if first < 0 else first, at[-1], max(gap, int(apart.max()) - 1)
    return range(max(0, int(first) - gap), int(last) + 1 + gap) if first >= 0 else range(0)


def _mark_rounded(
    actual: Bytes,
    expected: Bytes,
    outside: npt.NDArray[np.bool_],
    how: _How,
    number: int,
) -> npt.NDArray[np.bool_]:
    """Mark elements in ``outside`` that are within the bounds, although the baseline did not write them.

    number: of the first element. Only those of ``how.among`` are marked.
    """
    size, among = how.element_bytes, how.among
    marked = np.zeros(outside.size, np.bool_)
    low, high = (min(max(0, end - number), outside.size // size) * size for end in (among.start, among.stop))
    elements = outside[low:high].reshape(-1, size)
    at = np.flatnonzero(elements.any(axis=1))
    left, right = (each[low:high].reshape(-1, size)[at].ravel() for each in (actual, expected))
    at = at[mark_within_bounds(left, right, how.element_type, how.bounds)]
    marked[low:high].reshape(-1, size)[at] = True
    return marked


def _choose_chunks(chunks: DifferingChunks, low: int, high: int) -> list[int]:
    """Return the numbers of the chunks that have bytes in a window."""
    return [each for each in chunks.numbers if chunks.offset(each) < high and low < chunks.offset(each + 1)]


def _read_piece(chunks: DifferingChunks, low: int, high: int, number: int) -> tuple[int, tuple[Bytes, ...]]:
    """Return the offset of a chunk in the region, and the states of it, cut to a window."""
    offset, states = chunks.offset(number), chunks.read(number)
    first, last = max(low, offset), min(high, offset + states[0].size)
    return first, tuple(each[first - offset : last - offset] for each in states)


def count_changed_bytes(store: ReadsObjects, before: MemoryRef, after: MemoryRef) -> int:
    """Count the bytes that differ between two states of a region."""
    return sum(
        int(np.count_nonzero(left != right))
        for _, (left, right) in read_differing_chunks(store, before, after)
    )


def _widen(mask: npt.NDArray[np.bool_], size: int) -> npt.NDArray[np.bool_]:
    """Mark all bytes of elements that have a marked byte; bytes after the last whole element stay."""
    if size == 1:
        return mask
    whole = mask.size // size * size
    elements = mask[:whole].view(f"u{size}")
    all_marked = elements.dtype.type(int.from_bytes(b"\1" * size))
    return np.concatenate((((elements != 0) * all_marked).view(np.bool_), mask[whole:]))


def _compare_written(
    actual: Bytes,
    expected: Bytes,
    mask: npt.NDArray[np.bool_],
    element_type: str,
    bounds: Bounds,
    offset: int,
) -> Difference:
    positions = np.flatnonzero(mask)
    size = find_dtype(element_type).itemsize
    part = compare_elements(actual[positions], expected[positions], element_type, bounds)
    if part.worst is None:
        return part
    place = offset + int(positions[part.worst.offset_bytes // size * size])
    return replace(part, worst=replace(part.worst, offset_bytes=place))


def _find_ranges(mask: npt.NDArray[np.bool_]) -> Sequence[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return [(int(start), int(end - start)) for start, end in zip(edges[::2], edges[1::2], strict=True)]
