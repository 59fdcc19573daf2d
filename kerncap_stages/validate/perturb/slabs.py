"""Works through the slabs of a large array on several cores."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

# Each works on arrays of a slab's size: more would need much memory, and be no faster.
_MOST_THREADS = 8
_COMPARED_BYTES = 1 << 16  # at a time


def for_each_slab(work: Callable[[int, int], None], start: int, end: int, slab_bytes: int) -> None:
    """Call ``work`` with the first and the last offset of each slab, in threads, in any order."""
    do_all(cut_into_slabs(work, start, end, slab_bytes))


def cut_into_slabs(
    work: Callable[[int, int], None], start: int, end: int, slab_bytes: int
) -> list[Callable[[], None]]:
    """Return a call of ``work`` for each slab, with its first and its last offset."""
    return [partial(work, low, min(low + slab_bytes, end)) for low in range(start, end, slab_bytes)]


def do_all(calls: Sequence[Callable[[], None]]) -> None:
    """Make these calls in threads, in any order.

    Threads help where the calls spend their time in numpy, which lets others run meanwhile.
    """
    threads = min(_MOST_THREADS, len(os.sched_getaffinity(0)), len(calls))
    if threads <= 1:
        for call in calls:
            call()
        return

    def take_turns(first: int) -> None:
        for call in calls[first::threads]:
            call()

    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(take_turns, first) for first in range(threads)]:
            done.result()


def are_same(left: npt.NDArray[np.uint8], right: npt.NDArray[np.uint8]) -> bool:
    """Whether two arrays of one size hold the same bytes. It ends at the first slab that differs."""
    end = left.size // 8 * 8
    words = zip(*(_cut_words(each[:end]) for each in (left, right)), strict=True)
    return all(np.array_equal(*pair) for pair in words) and np.array_equal(left[end:], right[end:])


def _cut_words(content: npt.NDArray[np.uint8]) -> Iterator[npt.NDArray[np.uint64]]:
    """Yield the words of whole slabs: uint64[n]."""
    return (
        content[low : low + _COMPARED_BYTES].view(np.uint64)
        for low in range(0, content.size, _COMPARED_BYTES)
    )
