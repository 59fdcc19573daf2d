"""Compares a region's state after a variant with the expected state.

The baseline's pre-state and post-state show which bytes the baseline wrote. These are compared, by their type
if there are bounds. If the variant changed any other byte, that is a stray write, whatever the bounds are;
only ``rounding`` accepts elements within the bounds that lie between written ones.
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
    find_dtype,
    mark_within_bounds,
    merge,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests import ReadsObjects
    from kerncap_stages.manifests.memory import Region

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
    typed = "uint8" if element_type == "bytes" else element_type
    exact = Bounds() if element_type == "bytes" else bounds
    size = find_dtype(typed).itemsize
    low, high = window or (0, states.size_bytes)
    parts: list[Difference] = []
    stray: list[tuple[int, int]] = []
    bins = max(1, min(HEAT_BINS, -(-(high - low) // size)))
    heat = np.zeros(bins, np.int64)
    written_bytes = differing_bytes = stray_bytes = 0
    among = _find_written_range(store, states, size, low, high) if rounding else range(0)
    for start, (pre, expected, actual, *witness) in _read_pieces(store, states, low, high):
        written = _mark_written(pre, expected, witness)
        differs = expected != actual
        in_element = _widen(written, size)
        if among:
            in_element |= _mark_rounded(
                actual, expected, differs & ~in_element, typed, exact, (start - low) // size, among
            )
        if typed in INTEGER_TYPES and not differs.any():
            # The usual case for a right variant; skipping the rest makes it fast.
            written_bytes += int(np.count_nonzero(written))
            parts.append(Difference(elements=int(np.count_nonzero(in_element)) // size))
            continue
        outside = differs & ~in_element
        written_bytes += int(np.count_nonzero(written))
        differing_bytes += int(np.count_nonzero(differs & in_element))
        stray_bytes += int(np.count_nonzero(outside))
        if len(stray) < _MAX_STRAY_RANGES:
            stray += [(start + first, length) for first, length in _find_ranges(outside)]
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


def _mark_written(pre: Bytes, expected: Bytes, witness: Sequence[Bytes]) -> npt.NDArray[np.bool_]:
    written: npt.NDArray[np.bool_] = pre != expected
    if witness:
        written |= witness[0] != witness[1]
    return written


def _find_written_range(store: ReadsObjects, states: States, size: int, low: int, high: int) -> range:
    """Return the range of elements in a window from the first written one to the last.

    It is padded on both sides by the largest gap between two written elements, because a kernel may write
    only every n-th element.
    """
    first, last, gap = -1, -1, 0
    for start, (pre, expected, _, *witness) in _read_pieces(store, states, low, high):
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
    element_type: str,
    bounds: Bounds,
    number: int,
    among: range,
) -> npt.NDArray[np.bool_]:
    """Mark elements in ``outside`` that are within the bounds, although the baseline did not write them.

    number: of the first element. among: only these elements are marked.
    """
    size = find_dtype(element_type).itemsize
    marked = np.zeros(outside.size, np.bool_)
    low, high = (min(max(0, end - number), outside.size // size) * size for end in (among.start, among.stop))
    elements = outside[low:high].reshape(-1, size)
    at = np.flatnonzero(elements.any(axis=1))
    left, right = (each[low:high].reshape(-1, size)[at].ravel() for each in (actual, expected))
    marked[low:high].reshape(-1, size)[at[mark_within_bounds(left, right, element_type, bounds)]] = True
    return marked


def _read_pieces(
    store: ReadsObjects, states: States, low: int, high: int
) -> Iterator[tuple[int, tuple[Bytes, ...]]]:
    """Yield (offset in the region, the states) of each chunk in which states differ, cut to a window."""
    every = (states.pre, states.expected, states.actual, *(states.witness or ()))
    for offset, chunks in read_differing_chunks(store, *every):
        first, last = max(low, offset), min(high, offset + chunks[0].size)
        if first < last:
            yield first, tuple(chunk[first - offset : last - offset] for chunk in chunks)


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
