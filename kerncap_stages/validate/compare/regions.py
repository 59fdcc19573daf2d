"""Comparing the state that a variant left with the state that it should have left, region by region.

The baseline's own pre-state and post-state say which bytes it changed. Inside them values are compared, by
type when bounds are given; a byte outside them that the variant left different is a stray write, whatever the
bounds, but for roundings between written elements where the caller says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.store.chunks import read_differing_chunks
from kerncap_stages.validate.compare.bounds import INTEGER_TYPES
from kerncap_stages.validate.compare.elements import (
    Bounds,
    Difference,
    compare_elements,
    merge,
    numpy_dtype,
    within_bounds,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests import ReadsObjects

    Bytes = npt.NDArray[np.uint8]

HEAT_BINS = 1024
_MAX_STRAY_RANGES = 1000


@dataclass(frozen=True)
class States:
    """One region: what the run started from, what the baseline left, what the variant left.

    ``witness``: the region before and after the baseline from another state; what differs there is written
    too, though it may be what was there before.
    """

    pre: MemoryRef
    expected: MemoryRef
    actual: MemoryRef
    size_bytes: int
    witness: tuple[MemoryRef, MemoryRef] | None = None


@dataclass(frozen=True)
class RegionDifference:
    """How a variant's state differs from the expected one, in a region or a part of it.

    ``written_bytes``: changed by the baseline. ``stray``: (offset, length) outside them that the variant
    changed. ``heat``: differing bytes in each of at most HEAT_BINS equal parts. Offsets count from the
    region's base.
    """

    written_bytes: int
    differing_bytes: int
    difference: Difference
    stray: tuple[tuple[int, int], ...]
    stray_bytes: int
    heat: tuple[int, ...]

    @property
    def passed(self) -> bool:
        """No element out of bounds and nothing written astray."""
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
    """Compare one region, or the part of it from ``window[0]`` to ``window[1]``.

    ``element_type`` is ``bytes`` or one of bounds.ELEMENT_TYPES; elements begin where the window does.
    ``rounding``: elements between written ones may be written too, where they are within the bounds.
    """
    typed = "uint8" if element_type == "bytes" else element_type
    exact = Bounds() if element_type == "bytes" else bounds
    size = numpy_dtype(typed).itemsize
    low, high = window or (0, states.size_bytes)
    parts: list[Difference] = []
    stray: list[tuple[int, int]] = []
    bins = max(1, min(HEAT_BINS, -(-(high - low) // size)))
    heat = np.zeros(bins, np.int64)
    written_bytes = differing_bytes = stray_bytes = 0
    among = _stretch(store, states, size, low, high) if rounding else range(0)
    for start, (pre, expected, actual, *witness) in _pieces(store, states, low, high):
        written = _written(pre, expected, witness)
        differs = expected != actual
        in_element = _widen(written, size)
        if among:
            in_element |= _rounded(
                actual, expected, differs & ~in_element, typed, exact, (start - low) // size, among
            )
        if typed in INTEGER_TYPES and not differs.any():
            # What most variants that are right come to: nothing of it has to be gathered.
            written_bytes += int(written.sum())
            parts.append(Difference(elements=int(in_element.sum()) // size))
            continue
        outside = differs & ~in_element
        written_bytes += int(written.sum())
        differing_bytes += int((differs & in_element).sum())
        stray_bytes += int(outside.sum())
        if len(stray) < _MAX_STRAY_RANGES:
            stray += [(start + first, length) for first, length in _ranges(outside)]
        parts.append(_compare_written(actual, expected, in_element, typed, exact, start))
        places = (start - low + np.flatnonzero(differs)) * bins // max(high - low, 1)
        heat += np.bincount(places, minlength=bins)
    return RegionDifference(
        written_bytes=written_bytes,
        differing_bytes=differing_bytes,
        difference=merge(parts),
        stray=tuple(stray[:_MAX_STRAY_RANGES]),
        stray_bytes=stray_bytes,
        heat=tuple(int(count) for count in heat) if heat.any() else (),
    )


def _written(pre: Bytes, expected: Bytes, witness: Sequence[Bytes]) -> npt.NDArray[np.bool_]:
    written: npt.NDArray[np.bool_] = pre != expected
    if witness:
        written |= witness[0] != witness[1]
    return written


def _stretch(store: ReadsObjects, states: States, size: int, low: int, high: int) -> range:
    """Return the numbers of elements in a window from the first written one to the last.

    Padded on both sides by the largest gap between two of them, since a kernel may write only every n-th
    element.
    """
    first, last, gap = -1, -1, 0
    for start, (pre, expected, _, *witness) in _pieces(store, states, low, high):
        in_element = _widen(_written(pre, expected, witness), size)
        at = (start - low) // size + np.flatnonzero(in_element[: in_element.size // size * size : size])
        if at.size:
            apart = np.diff(at, prepend=at[0] if last < 0 else last)
            first, last, gap = at[0] if first < 0 else first, at[-1], max(gap, int(apart.max()) - 1)
    return range(max(0, int(first) - gap), int(last) + 1 + gap) if first >= 0 else range(0)


def _rounded(
    actual: Bytes,
    expected: Bytes,
    outside: npt.NDArray[np.bool_],
    element_type: str,
    bounds: Bounds,
    number: int,
    among: range,
) -> npt.NDArray[np.bool_]:
    """Mark elements that differ where nothing was written, as far as they are within the bounds.

    number: of the first element; those that are not among the given ones stay.
    """
    size = numpy_dtype(element_type).itemsize
    marked = np.zeros(outside.size, np.bool_)
    low, high = (min(max(0, end - number), outside.size // size) * size for end in (among.start, among.stop))
    elements = outside[low:high].reshape(-1, size)
    at = np.flatnonzero(elements.any(axis=1))
    left, right = (each[low:high].reshape(-1, size)[at].ravel() for each in (actual, expected))
    marked[low:high].reshape(-1, size)[at[within_bounds(left, right, element_type, bounds)]] = True
    return marked


def _pieces(
    store: ReadsObjects, states: States, low: int, high: int
) -> Iterator[tuple[int, tuple[Bytes, ...]]]:
    """(offset in the region, the states) of each piece between two offsets where states differ."""
    every = (states.pre, states.expected, states.actual, *(states.witness or ()))
    for offset, chunks in read_differing_chunks(store, *every):
        first, last = max(low, offset), min(high, offset + chunks[0].size)
        if first < last:
            yield first, tuple(chunk[first - offset : last - offset] for chunk in chunks)


def changed_bytes(store: ReadsObjects, before: MemoryRef, after: MemoryRef) -> int:
    """How many bytes differ between two states of one region."""
    return sum(
        int(np.count_nonzero(left != right))
        for _, (left, right) in read_differing_chunks(store, before, after)
    )


def _widen(mask: npt.NDArray[np.bool_], size: int) -> npt.NDArray[np.bool_]:
    """Mark whole elements of which any byte is marked; bytes behind the last whole element stay."""
    if size == 1:
        return mask
    whole = mask.size // size * size
    elements = mask[:whole].reshape(-1, size).any(axis=1)
    return np.concatenate((np.repeat(elements, size), mask[whole:]))


def _compare_written(
    actual: Bytes,
    expected: Bytes,
    mask: npt.NDArray[np.bool_],
    element_type: str,
    bounds: Bounds,
    offset: int,
) -> Difference:
    positions = np.flatnonzero(mask)
    size = numpy_dtype(element_type).itemsize
    part = compare_elements(actual[positions], expected[positions], element_type, bounds)
    if part.worst is None:
        return part
    place = offset + int(positions[part.worst.offset_bytes // size * size])
    return replace(part, worst=replace(part.worst, offset_bytes=place))


def _ranges(mask: npt.NDArray[np.bool_]) -> Sequence[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return [(int(start), int(end - start)) for start, end in zip(edges[::2], edges[1::2], strict=True)]
