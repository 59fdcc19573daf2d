"""Ranges of memory, as first addresses and those behind the ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_PAGE = 4 << 10
_LARGE_PAGE = 2 << 20  # NVIDIA's


def find_rest(
    parts: Iterable[tuple[int, int]], chosen: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield what of some parts is in none of the chosen ones, which are such parts or pieces of them."""
    for begin, end in parts:
        at = begin
        for low, high in sorted(each for each in chosen if begin <= each[0] and each[1] <= end):
            if at < low:
                yield at, low
            at = high
        if at < end:
            yield at, end


def halve_ranges(parts: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Return two halves of some parts, or of the only one; nothing if that is too small."""
    middle = len(parts) // 2
    if middle:
        return [list(parts[:middle]), list(parts[middle:])]
    ((begin, end),) = parts
    granule = _LARGE_PAGE if end - begin > _LARGE_PAGE else _PAGE
    middle = (begin + end) // 2 // granule * granule
    return [[(begin, middle)], [(middle, end)]] if begin < middle else []


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the same memory in ascending ranges with gaps between them."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return tuple(merged)
