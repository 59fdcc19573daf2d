"""Replays of a variant from changed states, begun beside the one from the captured state.

A replay waits for its device and for one thread most of the time: two at once take little longer than one.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from kerncap_stages.validation.perturb import with_pre_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.validation.runs import Run

# Two replays need twice the memory; what is larger is replayed one after the other.
MOST_BYTES = 2 << 30
# Of a replay that is not wanted if the variant is wrong, and that is made again if it took longer.
PATIENCE_S = 30.0


class Ahead:
    """One replay after the other, on a thread of their own. At its end all are awaited."""

    def __init__(self, replay: Callable[[Capture], Run]) -> None:
        """``replay`` runs the variant from the pre-state of the capture that it is given."""
        self._replay = replay
        self._pool = ThreadPoolExecutor(1)
        self._begun: dict[tuple[int, MemoryRef], Future[Run]] = {}

    def __enter__(self) -> Ahead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def begin(self, capture: Capture, states: Iterable[tuple[Region, MemoryRef]]) -> None:
        """Replay it from each of these states of a region; not where the capture is large."""
        if sum(region.size_bytes for region in capture.regions) > MOST_BYTES:
            return
        for region, pre in states:
            start = with_pre_state(capture, region, pre)
            self._begun[region.base_address, pre] = self._pool.submit(self._replay, start)

    def completed(self, region: Region, pre: MemoryRef) -> Run | None:
        """The replay from this state, if it was begun and ended well: a fault or hang is no answer yet."""
        future = self._begun.get((region.base_address, pre))
        if future is None or future.exception() is not None:
            return None
        run = future.result()
        return run if run.completed else None
