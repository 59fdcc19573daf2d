"""Replays from changed states, begun beside the one from the captured state.

A replay waits for its device and for one thread most of the time: two at once take little longer than one.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.replaying.process import INTERRUPTED_S, kill_running
from kerncap_stages.validation.perturb import MOST_REGIONS, with_pre_state
from kerncap_stages.validation.settings import MOST_BYTES_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.validation.changed_states import ChangedStates
    from kerncap_stages.validation.perturb import Altered
    from kerncap_stages.validation.runs import Baselines, Run

# The captured kernel and the variant from a changed state, beside the variant from the captured one.
_THREADS = 2
_LOOK_S = 0.02


class _Pool(ThreadPoolExecutor):
    """Threads, and what they were given."""

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self._given: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Begin something, as ThreadPoolExecutor does."""
        self._given.append(super().submit(fn, *args, **kwargs))
        return self._given[-1]

    @property
    def is_idle(self) -> bool:
        """Whether all of it has ended."""
        return all(future.done() for future in self._given)


class Ahead:
    """Replays on threads of their own. At its end all that were begun are awaited; an interrupt ends them."""

    def __init__(self, capture: Capture, replay: Callable[[Capture], Run]) -> None:
        """``replay`` runs the variant from the pre-state of the capture that it is given."""
        self._capture = capture
        self._is_silicon = not capture.environment.devices[capture.dispatch.device_index].software
        self._replay = replay
        self._pool = _Pool(_THREADS)
        self._begun: dict[tuple[int, MemoryRef], Future[Run]] = {}

    def __enter__(self) -> Ahead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        interrupted = kind is not None and not issubclass(kind, Exception)
        self._pool.shutdown(wait=not interrupted, cancel_futures=True)
        if not interrupted:
            return
        # A replay that runs on would hold the user up to its time limit. One may just be about to begin.
        ends_at = time.monotonic() + INTERRUPTED_S
        while time.monotonic() < ends_at and not self._pool.is_idle:
            kill_running()
            time.sleep(_LOOK_S)

    def begin(self, changed: ChangedStates, baselines: Baselines) -> None:
        """Replay what is sure to be asked for if the variant is right; nothing where the capture is large."""
        if sum(region.size_bytes for region in self._capture.regions) > MOST_BYTES_AT_ONCE:
            return
        for region in changed.reach.candidates[:MOST_REGIONS]:
            # Only where the baseline does not run from this one is another asked for.
            change = next(changed.changes(region), None)
            if change is None:
                continue
            known = baselines.known_change(region, change, changed.parts(region))
            if known is None:
                # Three replays: on a software GPU they would take the processors from each other.
                if self._is_silicon:
                    baselines.begin_changed(
                        self._pool, region, change, changed.parts(region), self._begin_from
                    )
            elif known.outcome is ReplayOutcome.COMPLETED and known.pre is not None:
                written = any(state.base_address == region.base_address for state in known.outputs)
                if written:
                    self._begin(region, known.pre)

    def _begin_from(self, state: Altered) -> None:
        self._begin(state.region, state.pre)

    def _begin(self, region: Region, pre: MemoryRef) -> None:
        start = with_pre_state(self._capture, region, pre)
        self._begun[region.base_address, pre] = self._pool.submit(self._replay, start)

    def completed(self, region: Region, pre: MemoryRef) -> Run | None:
        """The replay from this state, if it was begun and ended well: a fault or hang is no answer yet."""
        future = self._begun.get((region.base_address, pre))
        if future is None or future.exception() is not None:
            return None
        run = future.result()
        return run if run.completed else None
