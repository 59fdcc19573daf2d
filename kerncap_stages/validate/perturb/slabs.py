"""Works through the slabs of a large array on several cores."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Each works on arrays of a slab's size: more would need much memory, and be no faster.
_MOST_THREADS = 8


def for_each_slab(work: Callable[[int, int], None], start: int, end: int, slab_bytes: int) -> None:
    """Call ``work`` with the first and the last offset of each slab, in threads, in any order.

    Threads help where ``work`` spends its time in numpy, which lets others run meanwhile.
    """
    lows = range(start, end, slab_bytes)
    threads = min(_MOST_THREADS, len(os.sched_getaffinity(0)), len(lows))
    if threads <= 1:
        for low in lows:
            work(low, min(low + slab_bytes, end))
        return
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work, low, min(low + slab_bytes, end)) for low in lows]:
            done.result()
