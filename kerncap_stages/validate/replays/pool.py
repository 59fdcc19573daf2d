"""A thread pool that remembers its work, and when it was done."""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class _Span:
    """When a call began and ended."""

    began: float = math.inf
    ended: float = math.inf

    def measure(self, call: Callable[[], Any]) -> Any:
        self.began = time.monotonic()
        try:
            return call()
        finally:
            self.ended = time.monotonic()


class Pool(ThreadPoolExecutor):
    """A thread pool that remembers its work."""

    def __init__(self, threads: int) -> None:
        super().__init__(threads, initializer=lambda: self.thread_ids.add(threading.get_ident()))
        self.thread_ids: set[int] = set()
        self._given: dict[Future[Any], _Span] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Begin a call, as ThreadPoolExecutor does."""
        span = _Span()
        future = super().submit(span.measure, partial(fn, *args, **kwargs))
        self._given[future] = span
        return future

    def was_mostly_alone(self, future: Future[Any]) -> bool:
        """Whether no other call ran in the second half of this one, which has ended."""
        span = self._given[future]
        half = (span.began + span.ended) / 2
        return all(each is span or each.ended < half for each in self._given.values())

    def settle(self) -> None:
        """Wait until all calls have ended, whatever became of them, and forget them."""
        wait(self._given)
        self._given.clear()

    @property
    def is_idle(self) -> bool:
        """Whether all calls have ended."""
        return all(future.done() for future in self._given)
