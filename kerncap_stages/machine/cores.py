"""Makes many calls on several cores."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Calls mostly work on arrays: more threads would need much memory, and be no faster.
_MOST_THREADS = 8


def do_all(calls: Sequence[Callable[[], None]]) -> None:
    """Make these calls in threads, in any order. After an error, or Ctrl-C, none is begun any more.

    Threads help where the calls spend their time in numpy or in the store, which let others run meanwhile.
    """
    threads = min(_MOST_THREADS, len(os.sched_getaffinity(0)), len(calls))
    if threads <= 1:
        for call in calls:
            call()
        return
    ended = Event()

    def take_turns(first: int) -> None:
        try:
            for call in calls[first::threads]:
                if ended.is_set():
                    return
                call()
        except BaseException:
            ended.set()
            raise

    with ThreadPoolExecutor(threads) as pool:
        try:
            for done in [pool.submit(take_turns, first) for first in range(threads)]:
                done.result()
        finally:
            ended.set()
