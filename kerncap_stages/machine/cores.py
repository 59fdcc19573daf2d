"""Makes many calls on several cores."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")
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


def map_all(work: Callable[[_Item], _Found], items: Sequence[_Item]) -> list[_Found]:
    """Return what ``work`` returns for each item, in their order; the calls are made as by ``do_all``."""
    found: dict[int, _Found] = {}

    def take(number: int) -> None:
        found[number] = work(items[number])

    do_all([partial(take, number) for number in range(len(items))])
    return [found[number] for number in range(len(items))]
