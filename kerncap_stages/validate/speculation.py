"""Replays that begin before they are asked for, beside the one from the captured state.

A replay waits for its device and for one thread most of the time: two at once take little longer than one.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.replay.process import INTERRUPTED_S, kill_running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from kerncap_stages.replay.runner import Repeats
    from kerncap_stages.validate.perturb.start import Start
    from kerncap_stages.validate.replayer import Replayer, Run

# The captured kernel and the variant from a perturbed state, beside the variant from the captured one.
_THREADS = 2
_LOOK_S = 0.02


class _Pool(ThreadPoolExecutor):
    """Threads, and the work that they were given."""

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


class Speculation:
    """A replayer that may have begun a run before it is asked for it.

    At the end of its block all runs that it began are awaited; an interrupt ends them.
    """

    def __init__(self, replayer: Replayer) -> None:
        """``replayer`` makes the runs, from several threads at once."""
        self._replayer = replayer
        self._pool = _Pool(_THREADS)
        self._begun: dict[object, Future[Run]] = {}

    def __enter__(self) -> Speculation:
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

    def expect(self) -> None:
        """Prepare for one more run."""
        self._replayer.expect()

    def begin(self, start: Start, variant: Path | None, repeats: Repeats | None = None) -> None:
        """Begin a run that ``run`` is likely to be asked for."""
        self._begun[start.key, variant] = self._pool.submit(self._replayer.run, start, variant, repeats)

    def run(self, start: Start, variant: Path | None, repeats: Repeats | None = None) -> Run:
        """Return what a run that was begun has found, else run."""
        begun = self._begun.pop((start.key, variant), None)
        if begun is not None and begun.exception() is None:
            run: Run = begun.result()
            # A variant's fault or hang is not believed: there may have been no memory for two runs at once.
            # Nor is any hang: it had less time than it is given now.
            is_answer = run.completed or (variant is None and run.outcome is not ReplayOutcome.TIMED_OUT)
            if is_answer:
                return run
        return self._replayer.run(start, variant, repeats)
