"""Begins replays before the judge asks for them, at the same time as the one from the captured state.

A replay mostly waits for its device and for one thread, so two at once take little longer than one.
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

# For the captured kernel and the variant from a perturbed state, and then from fresh values, while the
# variant runs from the captured state.
_THREADS = 2
_LOOK_S = 0.02


class _Pool(ThreadPoolExecutor):
    """A thread pool that remembers its work."""

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self._given: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Begin a call, as ThreadPoolExecutor does."""
        self._given.append(super().submit(fn, *args, **kwargs))
        return self._given[-1]

    @property
    def is_idle(self) -> bool:
        """Whether all calls have ended."""
        return all(future.done() for future in self._given)


class Speculation:
    """A replayer that may have begun a run before it is asked for.

    The end of the ``with`` block waits for all runs that were begun; after an interrupt it kills them.
    """

    def __init__(self, replayer: Replayer) -> None:
        """``replayer`` makes the runs; several threads call it at once."""
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
        # Without this the user would wait for the time limits of the replays. Repeated, as one may just
        # begin.
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
        """Return the result of a run that was begun, or run now."""
        begun = self._begun.pop((start.key, variant), None)
        if begun is not None and begun.exception() is None:
            run: Run = begun.result()
            # A variant that faulted or hung runs again: two runs at once may have been short of memory. So
            # does the captured kernel if it hung, because its time limit was lower than it is now.
            is_answer = run.completed or (variant is None and run.outcome is not ReplayOutcome.TIMED_OUT)
            if is_answer:
                return run
        return self._replayer.run(start, variant, repeats)
