"""Begins replays before the judge asks for them, at the same time as the one from the captured state.

A replay mostly waits for its device and for one thread, so two at once take little longer than one.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.replay.process import INTERRUPTED_S, kill_running
from kerncap_stages.validate.replays.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future
    from pathlib import Path
    from types import TracebackType

    from kerncap_stages.replay.runner import Repeats
    from kerncap_stages.validate.perturb.start import Start
    from kerncap_stages.validate.replays.replayer import Replayer, Run

# For the captured kernel and the variant: each in one process from the captured state and from fresh values,
# and in one from a perturbed state that is too large for that.
THREADS = 2
THREADS_OF_HARDWARE = 3
_LOOK_S = 0.02
# A run that takes longer is waited for before others are begun behind it.
_POSTPONED_AFTER_MS = 2000
_SEQUENCE = random.SystemRandom()


@dataclass(frozen=True)
class Neighbours:
    """Other processes that replay at the same time for the same evaluation, and whether they share the GPU.

    Each process has a software GPU of its own.
    """

    on_machine: bool = False
    on_device: bool = False

    def may_end(self, outcome: ReplayOutcome) -> bool:
        """Whether they may be why a replay of ours ended like that: they took its memory or its device."""
        return self.on_device or (self.on_machine and outcome is ReplayOutcome.CRASHED)


NO_NEIGHBOURS = Neighbours()


@dataclass(frozen=True)
class _Turns:
    """Runs in one process, by their starts. postponed: further states were left out, as a run takes long."""

    runs: Mapping[object, Run]
    postponed: bool = False


@dataclass(frozen=True)
class _Begun:
    """A run by itself that was begun."""

    future: Future[Run]
    variant: Path | None
    postponed = False

    @property
    def found(self) -> Run | None:
        """Wait for the run; None if it raised an error."""
        return None if self.future.exception() is not None else self.future.result()

    def answer(self, alone_but_for: Neighbours | None = None) -> Run | None:  # noqa: ARG002 - it never was
        """Wait for the run; None if it has to be run again.

        A variant that faulted or hung runs again: two runs at once may have been short of memory. So does the
        captured kernel if it hung, because its time limit was lower than it is now.
        """
        run = self.found
        if run is None or run.completed:
            return run
        return run if self.variant is None and run.outcome is not ReplayOutcome.TIMED_OUT else None


@dataclass(frozen=True)
class _BegunInTurn:
    """A run from a state that was begun in a process with others."""

    future: Future[_Turns]
    start: Start
    variant: Path | None

    @property
    def found(self) -> Run | None:
        """Wait for the process; None if it raised an error, or did not come to this state."""
        return None if self.future.exception() is not None else self.future.result().runs.get(self.start.key)

    @property
    def postponed(self) -> bool:
        """Whether the process ended before it came to this state, as a run takes long."""
        return self.future.exception() is None and self.future.result().postponed

    def answer(self, alone_but_for: Neighbours | None = None) -> Run | None:
        """Wait for the process; None if this state has to be run again.

        So it is if it did not complete, and something that ran at the same time may be the reason: another
        run that was begun, as for ``_Begun``, or neighbours. alone_but_for: None if another run was begun.
        """
        run = self.found
        if run is None or run.completed:
            return run
        if self.variant is None:
            return None if run.outcome is ReplayOutcome.TIMED_OUT else run
        return None if alone_but_for is None or alone_but_for.may_end(run.outcome) else run


class Speculation:
    """A replayer that may have begun a run before it is asked for.

    The end of the ``with`` block waits for all runs that were begun; after an interrupt it kills them.
    """

    def __init__(
        self,
        replayer: Replayer,
        *,
        kills: bool = False,
        neighbours: Neighbours = NO_NEIGHBOURS,
        meanwhile: Callable[[], object] | None = None,
        threads: int = THREADS,
    ) -> None:
        """``replayer`` makes the runs; several threads call it at once.

        kills: whether the end of the ``with`` block also kills runs that nobody has asked for.
        meanwhile: is called once, when a run that was begun is waited for. threads: so many runs at once.
        """
        self._replayer = replayer
        self._neighbours = neighbours
        self._kills = kills
        self._meanwhile = meanwhile
        self._pool = Pool(threads)
        self._begun: dict[object, _Begun | _BegunInTurn] = {}

    def __enter__(self) -> Speculation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        interrupted = kind is not None and not issubclass(kind, Exception)
        kills = interrupted or (self._kills and bool(self._begun))
        self._pool.shutdown(wait=not kills, cancel_futures=True)
        if not kills:
            return
        # Without this the user would wait for the time limits of the replays. Repeated, as one may just
        # begin.
        ends_at = time.monotonic() + INTERRUPTED_S
        while time.monotonic() < ends_at and not self._pool.is_idle:
            kill_running(None if interrupted else self._pool.thread_ids)
            time.sleep(_LOOK_S)

    def expect(self) -> None:
        """Prepare for one more run."""
        self._replayer.expect()

    def watch_writes(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Tell of each run which of these ranges it wrote, where the device can tell."""
        self._replayer.watch_writes(ranges)

    def settle(self) -> None:
        """Wait for all runs that were begun, and forget those that nobody asked for."""
        self._pool.settle()
        self._begun.clear()

    def begin(self, start: Start, variant: Path | None, repeats: Repeats | None = None) -> None:
        """Begin a run that ``run`` is likely to be asked for."""
        future = self._pool.submit(self._replayer.run, start, variant, repeats)
        self._begun[start.key, variant] = _Begun(future, variant)

    def begin_in_turn(
        self, first: Start, further: Sequence[Start], variant: Path, repeats: Repeats | None = None
    ) -> None:
        """Begin runs of a variant in one process, from the captured state and from each of the others.

        The others are postponed if the first run takes long: they are not needed if it was wrong.
        """
        order = None if repeats is None else repeats.order
        future = self._pool.submit(
            self._run_in_turn, first, further, variant, repeats, order=order, within_ms=_POSTPONED_AFTER_MS
        )
        for start in (first, *further):
            self._begun[start.key, variant] = _BegunInTurn(future, start, variant)

    def begin_further(
        self, first: Start, further: Sequence[Start], variant: Path | None, order: int | None = None
    ) -> None:
        """Begin runs of a kernel in one process; nobody will ask for the one from the captured state.

        order: as in ``Repeats``.
        """
        within_ms = _POSTPONED_AFTER_MS if variant is None else None
        future = self._pool.submit(
            self._run_in_turn, first, further, variant, order=order, quiet=True, within_ms=within_ms
        )
        for start in further:
            self._begun[start.key, variant] = _BegunInTurn(future, start, variant)

    def has_begun(self, start: Start, variant: Path | None) -> bool:
        """Whether a run was begun that nobody has asked for yet."""
        return (start.key, variant) in self._begun

    def run(self, start: Start, variant: Path | None, repeats: Repeats | None = None) -> Run:
        """Return the result of a run that was begun, or run now."""
        begun = self._begun.pop((start.key, variant), None)
        if begun is None:
            return self._replayer.run(start, variant, repeats)
        if self._meanwhile is not None:
            work, self._meanwhile = self._meanwhile, None
            work()
        was_alone = all(each.future is begun.future for each in self._begun.values())
        answer = begun.answer(self._neighbours if was_alone else None)
        return answer or self._find_hang(begun) or self._replayer.run(start, variant, repeats)

    def _find_hang(self, begun: _Begun | _BegunInTurn) -> Run | None:
        """Return a variant's run that timed out, if nothing else ran for half of that time.

        Another run would take the whole limit again, which is minutes.
        """
        run = begun.found
        if begun.variant is None or run is None or run.outcome is not ReplayOutcome.TIMED_OUT:
            return None
        others = self._neighbours.may_end(run.outcome)
        return run if not others and self._pool.was_mostly_alone(begun.future) else None

    def run_after(self, first: Start, start: Start, variant: Path, repeats: Repeats | None) -> Run:
        """As ``run``, but in a process that has run from the captured state before, if that is possible.

        What a variant keeps from its first run is wrong for another state. Without ``repeats``, each state is
        too large to be put back between runs.
        """
        begun = self._begun.pop((start.key, variant), None)
        found = None if begun is None else begun.answer()
        if found is None and repeats is not None and (begun is None or begun.postponed):
            turns = self._run_in_turn(first, [start], variant, order=repeats.order, quiet=True)
            found = turns.runs.get(start.key)
        return found or self._replayer.run(start, variant, repeats)

    def _run_in_turn(
        self,
        first: Start,
        further: Sequence[Start],
        variant: Path | None,
        repeats: Repeats | None = None,
        *,
        order: int | None = None,
        quiet: bool = False,
        within_ms: int | None = None,
    ) -> _Turns:
        """Run a variant from each further state twice, in a sequence that it cannot know; none if one fails.

        order: seed of another order of waves in the second run from each. The captured kernel runs once.
        """
        sequence = [*further] if variant is None else [*further, *further]
        if variant is not None:
            _SEQUENCE.shuffle(sequence)
        orders = {} if order is None else _choose_orders(further, sequence, order)
        runs = self._replayer.run_in_turn(
            first,
            sequence,
            variant,
            repeats,
            quiet=quiet,
            within_ms=within_ms,
            orders=orders,
        )
        if runs is None:
            return _Turns({})
        found: dict[object, Run] = {first.key: runs[0]}
        if len(runs) == 1:
            return _Turns(found, postponed=runs[0].completed and not runs[0].ran_once)
        # Of the captured kernel there are none behind one that did not complete.
        for start, run in zip(sequence, runs[1:], strict=variant is not None):
            before = found.get(start.key)
            found[start.key] = replace(run, in_turn=True) if before is None else _add_repeat(before, run)
        return _Turns(found)


def _choose_orders(further: Sequence[Start], sequence: Sequence[Start], order: int) -> dict[int, int]:
    """Return the seed of the order of waves for each second run from a state, by its number."""
    seeds: dict[object, int] = {start.key: order + number for number, start in enumerate(further)}
    seconds: dict[object, int] = {start.key: number for number, start in enumerate(sequence)}
    return {number: seeds[key] for key, number in seconds.items()} if len(sequence) > len(further) else {}


def _add_repeat(first: Run, second: Run) -> Run:
    """Count a second run from the same state with the first."""
    differs = second.outputs != first.outputs
    return replace(
        first,
        writes=None if first.writes is None or second.writes is None else first.writes | second.writes,
        further_runs=1,
        differing_runs=int(differs),
        differing=(second.outputs,) if differs else (),
        guard=first.guard or second.guard,
    )
