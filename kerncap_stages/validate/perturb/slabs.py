"""Works through the slabs of a large array on several cores."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.machine.cores import do_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

_COMPARED_BYTES = 1 << 16  # at a time


def for_each_slab(work: Callable[[int, int], None], start: int, end: int, slab_bytes: int) -> None:
    """Call ``work`` with the first and the last offset of each slab, in threads, in any order."""
    do_all(cut_into_slabs(work, start, end, slab_bytes))


def cut_into_slabs(
    work: Callable[[int, int], None], start: int, end: int, slab_bytes: int
) -> list[Callable[[], None]]:
    """Return a call of ``work`` for each slab, with its first and its last offset."""
    return [partial(work, low, min(low + slab_bytes, end)) for low in range(start, end, slab_bytes)]


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
