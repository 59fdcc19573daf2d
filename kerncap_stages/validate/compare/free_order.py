"""Recognises outputs whose elements may stand in any order, as those of a list that an atomic counter fills.

Runs of the captured kernel show it: they leave the same elements in other places. Then a variant must leave
these elements, too, each as often, in places that the captured kernel writes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.validate.compare.bounds import FLOAT_TYPES, Bounds
from kerncap_stages.validate.compare.elements import compare_elements, find_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.validate.arguments import Span

    Bytes = npt.NDArray[np.uint8]

_MOST_BYTES = 64 << 20
_WORD_BYTES = 4  # of elements of unknown type
_RECORD_BYTES = (4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64)  # sizes of elements of unknown type
# A list ends where so many bytes are not written. An element that is as it was before is a shorter gap.
_GAP_BYTES = 64
# Uppermost bytes of neighbours are often the same, for twice the right size nearly as often.
_AS_ALIKE = 0.9
_PLAUSIBLE = (87, 167)  # fp32 exponents from 2^-40 to 2^40


@dataclass(frozen=True)
class FreeOrder:
    """Ranges of a part in which elements may stand in any order, as offsets in it of whole elements.

    kind: the type of the elements; None: not known. has_others: whether there are several lists, or the
    kernel also writes elsewhere in the part.
    """

    kind: str | None
    record_bytes: int
    ranges: tuple[tuple[int, int], ...]
    has_others: bool = False

    def within(self, other: FreeOrder) -> FreeOrder:
        """Return this order in the ranges of another one, whose records are multiples of this one's."""
        return replace(self, ranges=other.ranges)

    def has_same(self, expected: Bytes, actual: Bytes) -> bool:
        """Whether two outputs have the same elements in each range."""
        size = self.record_bytes
        return all(
            np.array_equal(_sort(expected[low:high], size), _sort(actual[low:high], size))
            for low, high in self.ranges
        )

    def is_kept(self, expected: Bytes, actual: Bytes, bounds: Bounds) -> bool:
        """Whether an output has the expected elements in each range, and outside of them is the same.

        bounds: of floats among them.
        """
        outside = np.ones(expected.size, np.bool_)
        for low, high in self.ranges:
            outside[low:high] = False
            before, after = (_sort(each[low:high], self.record_bytes) for each in (expected, actual))
            if not np.array_equal(before, after) and not self._is_close(before, after, bounds):
                return False
        return not (outside & (expected != actual)).any()

    def _is_close(self, expected: Bytes, actual: Bytes, bounds: Bounds) -> bool:
        """Whether the words at each place of all records are the same, or floats within the bounds."""
        kind, size = self.kind, _WORD_BYTES if self.kind is None else self.record_bytes
        if bounds.is_exact or (kind is not None and kind not in FLOAT_TYPES):
            return False
        for at in range(0, self.record_bytes, size):
            left, right = (np.ascontiguousarray(each[:, at : at + size]) for each in (expected, actual))
            name = kind or "fp32"
            if np.array_equal(_sort(left, size), _sort(right, size)):
                continue
            if kind is None and not (_are_floats(left) and _are_floats(right)):
                return False
            left, right = (np.sort(each.reshape(-1).view(find_dtype(name))) for each in (left, right))
            if not compare_elements(right.view(np.uint8), left.view(np.uint8), name, bounds).passed:
                return False
        return True


def has_same_elements(kind: str | None, expected: Bytes, actual: Bytes) -> bool:
    """Whether two outputs have the same words, each as often."""
    size = _WORD_BYTES if kind is None else find_dtype(kind).itemsize
    whole = expected.size // size * size
    return expected.size <= _MOST_BYTES and np.array_equal(
        _sort(expected[:whole], size), _sort(actual[:whole], size)
    )


def find_free_orders(
    parts: Iterable[tuple[Region, Span]],
    expected: Mapping[int, MemoryRef],
    runs: Sequence[Mapping[int, MemoryRef]],
    read: Callable[..., Iterator[Bytes]],
    *,
    alone: bool,
) -> dict[tuple[int, int], FreeOrder]:
    """Return where runs leave the same elements in other places, by base address and start of the part.

    expected: the outputs by base address, as those of each of the runs. read: reads a part of memories.
    alone: only where all that is written to a part is one list. A table has gaps; a few runs need not show
    all elements that may change places in it, and if it is nearly full, which ones find a place.
    """
    found: dict[tuple[int, int], FreeOrder] = {}
    for region, part in parts:
        base = region.base_address
        others = {each[base] for each in runs if each.get(base, expected[base]) != expected[base]}
        if others and region.pre is not None:
            before, *after = read(part, region.pre, expected[base], *others)
            free = find_free_order(part, before, after)
            found |= {} if free is None or (alone and free.has_others) else {(base, part.start): free}
    return found


def join_orders(
    here: Mapping[tuple[int, int], FreeOrder], captured: Mapping[tuple[int, int], FreeOrder]
) -> dict[tuple[int, int], FreeOrder]:
    """Return the orders of a state; one that is free in the captured state, too, covers the ranges of both.

    here: those of the state. captured: those of the captured state. Each order is of a part with one list. A
    few runs may show only some of the elements that change places, or several that always move together and
    seem to be one record. So the record is the longest of which both are multiples.
    """
    found = dict(here)
    for where in here.keys() & captured.keys():
        both = here[where], captured[where]
        ranges = [each for order in both for each in order.ranges]
        around = min(low for low, _ in ranges), max(high for _, high in ranges)
        size = math.gcd(*(order.record_bytes for order in both))
        found[where] = replace(here[where], record_bytes=size, ranges=(around,))
    return found


def find_free_order(part: Span, before: Bytes, runs: Sequence[Bytes]) -> FreeOrder | None:
    """Return where runs of the captured kernel leave the same elements in other places; None: nowhere.

    before: the part before the kernel ran. runs: it afterwards, that of the expected outputs first. Each:
    uint8[size of the part]. None also if they differ in anything else.
    """
    expected, *others = runs
    differing = np.zeros(expected.size, np.bool_)
    for each in others:
        differing |= each != expected
    if not differing.any() or expected.size > _MOST_BYTES:
        return None
    written = differing | (before != expected)
    kind = part.element_type
    sizes = _RECORD_BYTES if kind is None else (find_dtype(kind).itemsize,)
    found = [
        free
        for size in sizes
        for free in _list_candidates(part, written, differing, size)
        if all(free.is_kept(expected, each, Bounds()) for each in others)
    ]
    if not found:
        return None
    alike = [_count_alike(expected, free) for free in found]
    return next(free for free, share in zip(found, alike, strict=True) if share >= _AS_ALIKE * max(alike))


def _list_candidates(
    part: Span, written: npt.NDArray[np.bool_], differing: npt.NDArray[np.bool_], size: int
) -> list[FreeOrder]:
    """Return what the order may be within, for elements of a size: each list by itself, or all together."""
    count = written.size // size
    is_written, differs = (
        each[: count * size].reshape(-1, size).any(axis=1) for each in (written, differing)
    )
    at = np.flatnonzero(is_written)
    if not at.size:
        return []
    cuts = np.flatnonzero(np.diff(at) > max(1, _GAP_BYTES // size)) + 1
    lists = [(int(each[0]), int(each[-1]) + 1) for each in np.split(at, cuts)]
    moved = [each for each in lists if differs[slice(*each)].any()]
    if not moved:
        return []
    # Where the kernel's own runs are the same a variant's may differ: a hash table has more collisions.
    longest = max(high - low for low, high in moved)
    free = [(low, high) for low, high in lists if part.label and high - low <= longest]
    ranges = sorted({*moved, *free})
    together = ((moved[0][0], moved[-1][1]),)
    return [
        FreeOrder(
            part.element_type, size, tuple((low * size, high * size) for low, high in each), len(lists) > 1
        )
        for each in (tuple(ranges), together)
    ]


def _sort(content: Bytes, size: int) -> Bytes:
    """Return records in the order of their words: uint8[n, size]."""
    unit = next(each for each in (8, 4, 2, 1) if size % each == 0)
    records = np.ascontiguousarray(content).reshape(-1, size)
    words = records.view(np.dtype(f"<u{unit}"))
    order = np.lexsort(words.T) if words.shape[1] > 1 else np.argsort(words[:, 0])
    ordered: Bytes = records[order]
    return ordered


def _count_alike(content: Bytes, free: FreeOrder) -> float:
    """Return for which share of the words in the ranges the one a record further has the same top byte."""
    step = max(1, free.record_bytes // _WORD_BYTES)
    same = [np.empty(0, np.bool_)]
    for low, high in free.ranges:
        tops = content[low:high][_WORD_BYTES - 1 :: _WORD_BYTES]
        same.append(tops[step:] == tops[:-step])
    found = np.concatenate(same)
    return float(found.mean()) if found.size else 0.0


def _are_floats(words: Bytes) -> bool:
    exponents = (np.ascontiguousarray(words).reshape(-1).view(np.uint32) >> 23) & 0xFF
    low, high = _PLAUSIBLE
    return bool(((exponents == 0) | ((exponents >= low) & (exponents <= high))).all())
