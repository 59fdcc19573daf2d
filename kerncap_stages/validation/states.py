"""Comparing the state that a variant left with the state that it should have left, region by region.

The baseline's own pre-state and post-state say which bytes it changed. Inside them values are compared, by
type when bounds are given; a byte outside them that the variant left different is a stray write, whatever the
bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.comparison import Bounds, Difference, compare_elements, merge, numpy_dtype
from kerncap_stages.validation.chunks import differing_chunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.codec import ReadsObjects

    Bytes = npt.NDArray[np.uint8]

HEAT_BINS = 64
_MAX_STRAY_RANGES = 1000


@dataclass(frozen=True)
class States:
    """One region: what the run started from, what the baseline left, what the variant left."""

    pre: MemoryRef
    expected: MemoryRef
    actual: MemoryRef
    size_bytes: int


@dataclass(frozen=True)
class RegionDifference:
    """How a variant's state differs from the expected one.

    ``written_bytes``: changed by the baseline. ``stray``: (offset, length) outside them that the variant
    changed. ``heat``: differing bytes in each of HEAT_BINS equal parts of the region.
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
    store: ReadsObjects, states: States, element_type: str, bounds: Bounds
) -> RegionDifference:
    """Compare one region; ``element_type`` is ``bytes`` or one of comparison.ELEMENT_TYPES."""
    typed = "uint8" if element_type == "bytes" else element_type
    size = numpy_dtype(typed).itemsize
    parts: list[Difference] = []
    stray: list[tuple[int, int]] = []
    heat = np.zeros(HEAT_BINS, np.int64)
    written_bytes = differing_bytes = stray_bytes = 0
    for offset, (pre, expected, actual) in differing_chunks(
        store, states.pre, states.expected, states.actual
    ):
        written = pre != expected
        differs = expected != actual
        in_element = _widen(written, size)
        outside = differs & ~in_element
        written_bytes += int(written.sum())
        differing_bytes += int((differs & in_element).sum())
        stray_bytes += int(outside.sum())
        stray += [(offset + start, length) for start, length in _ranges(outside)]
        parts.append(_compare_written(actual, expected, in_element, typed, bounds, offset))
        np.add.at(heat, (offset + np.flatnonzero(differs)) * HEAT_BINS // max(states.size_bytes, 1), 1)
    return RegionDifference(
        written_bytes=written_bytes,
        differing_bytes=differing_bytes,
        difference=merge(parts),
        stray=tuple(stray[:_MAX_STRAY_RANGES]),
        stray_bytes=stray_bytes,
        heat=tuple(int(count) for count in heat),
    )


def changed_bytes(store: ReadsObjects, before: MemoryRef, after: MemoryRef) -> int:
    """How many bytes differ between two states of one region."""
    return sum(
        int(np.count_nonzero(left != right)) for _, (left, right) in differing_chunks(store, before, after)
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
    worst = part.worst_offset_bytes
    if worst is None:
        return part
    return replace(part, worst_offset_bytes=offset + int(positions[worst // size * size]))


def _ranges(mask: npt.NDArray[np.bool_]) -> Sequence[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return [(int(start), int(end - start)) for start, end in zip(edges[::2], edges[1::2], strict=True)]
