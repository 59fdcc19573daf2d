"""Runs replays and stores their outputs: the interface that the judge uses, and one that starts processes."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from kerncap_stages.machine.temporary import TemporaryFolder
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.replay.accesses import Watched
from kerncap_stages.replay.process import REPEAT_PHASE
from kerncap_stages.replay.report import GuardedRuns
from kerncap_stages.replay.runner import ReplayRequest, replay_capture
from kerncap_stages.validate.replays.limits import MAX_BYTES_AT_ONCE
from kerncap_stages.validate.replays.outputs import (
    count_whole,
    find_missing_state,
    make_relocation,
    publish_staged,
    stage_differing,
    stage_outputs,
)
from kerncap_stages.validate.replays.verification import Verification

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.replay.report import ReplayResult
    from kerncap_stages.replay.runner import Repeats
    from kerncap_stages.replay.standby import Standbys
    from kerncap_stages.replay.variant_shape import VariantShape
    from kerncap_stages.store import Store, Transaction
    from kerncap_stages.validate.compare.relocation import Relocation
    from kerncap_stages.validate.perturb.start import Start

# From a perturbed state a kernel may never end. Its time limit is this, or a multiple of the first run's
# time.
_PERTURBED_LIMIT_S = 30.0
_PERTURBED_FACTOR = 20.0
# With fresh values it may loop for long, but then it is tried with milder ones.
_FRESH_LIMIT_S = 3.0
_FRESH_FACTOR = 3.0


@dataclass(frozen=True)
class Run:
    """A run of a kernel. ``outputs``: the states of all regions after it; empty unless it completed."""

    outcome: ReplayOutcome
    explanation: str | None
    outputs: Mapping[int, MemoryRef]
    outside: tuple[tuple[int, int], ...] = ()  # address and length of writes outside of all regions
    relocated_words: int = 0  # addresses of a variant's functions and tables, replaced by the captured ones
    further_runs: int = 0  # from the same state
    differing_runs: int = 0  # how many of these gave other outputs than the first
    differing: tuple[Mapping[int, MemoryRef], ...] = ()  # outputs of the first few of these
    ran_once: str = ""  # why there are no further runs, if some were requested
    unsettled: bool = False  # its own variables still changed in the last further run
    # Numbers of the watched ranges that it and the further runs wrote; None: not known.
    writes: frozenset[int] | None = None
    in_turn: bool = False  # in a process that had run from another state before
    was_kept: bool = False  # in a process for several replays
    guard: GuardedRuns | None = None  # further ones from the same state; None: nobody wanted any
    without: tuple[str, ...] = ()  # what its replay did without, for people

    @property
    def completed(self) -> bool:
        """Whether the kernel completed."""
        return self.outcome is ReplayOutcome.COMPLETED

    @property
    def ending(self) -> str:
        """How the run ended, for people."""
        return f"{self.outcome.value.replace('_', ' ')}: {self.explanation}"


class SingleReplayer(Protocol):
    """Runs kernels from single states of one capture."""

    def run(self, start: Start, variant: Path | None, repeats: Repeats | None = None) -> Run:
        """Run the captured kernel, or a variant, from a state; with ``repeats``, several times from it.

        Raises an error if the replay cannot be run. A kernel that faults or hangs is a result.
        """


class Replayer(SingleReplayer, Protocol):
    """Runs kernels from states of one capture."""

    def run_in_turn(
        self,
        first: Start,
        further: Sequence[Start],
        variant: Path | None,
        repeats: Repeats | None = None,
        *,
        quiet: bool = False,
        within_ms: int | None = None,
        orders: Mapping[int, int] | None = None,
    ) -> list[Run] | None:
        """Run a kernel from several states of one capture in one process, the captured one first.

        quiet: show nothing that it prints. within_ms: if the first run takes longer, return that alone. So it
        is if it does not complete. orders: seeds of other orders of waves, by the further state's number.
        None if that is not possible, or if another run did not complete: run it from each of them alone then.
        The runs of the captured kernel up to that one are returned.
        """

    def expect(self) -> None:
        """Prepare for one more run at the same time as the others. Called by the main thread."""

    def watch_writes(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Tell of each run from now on which of these ranges it wrote, where the device can tell."""


class ProcessReplayer:
    """Runs each replay in its own process, and stores its outputs."""

    def __init__(
        self,
        store: Store,
        capture: Capture,
        timeout_s: float,
        standbys: Standbys | None = None,
        variant_shape: VariantShape | None = None,
        *,
        verify_once: bool = False,
    ) -> None:
        """``timeout_s``: time limit of a run. ``standbys``: replayer processes that were started before.

        variant_shape: how variants are launched; None: as captured. verify_once: each state is hashed by the
        first replay that restores it, and not by others, at the same time or later.
        """
        self._store = store
        self._size_bytes = capture.size_bytes
        self._timeout_s = timeout_s
        self._first_run_s: float | None = None
        self._standbys = standbys
        self._variant_shape = variant_shape
        self._watched: Watched | None = None
        self._verification = Verification(once=verify_once)
        # Of one dispatch from the captured state, on the software GPU; the latest that was counted.
        self.baseline_instructions: int | None = None
        self.variant_instructions: int | None = None

    def begin_variant(self, shape: VariantShape | None) -> None:
        """Forget what is known of the last variant. ``shape``: how the next one is launched."""
        self._variant_shape = shape
        self._first_run_s = None
        self.variant_instructions = None

    def expect(self) -> None:
        """Start a process for one more run."""
        if self._standbys is not None:
            self._standbys.start_one_more()

    def watch_writes(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Record writes to these ranges, on the software GPU."""
        self._watched = Watched(ranges, every=True, writes_only=True) if ranges else None

    def run(self, start: Start, variant: Path | None, repeats: Repeats | None = None) -> Run:
        """Run a kernel, and store the chunks that it changed.

        The next collection removes them unless a validation refers to them.
        """
        began = time.monotonic()
        with TemporaryFolder("outputs") as folder:
            result = self._replay(folder, start, variant, repeats)
            if not start.is_perturbed and self._first_run_s is None:
                self._first_run_s = time.monotonic() - began
            return self._read_run(folder, start, variant, result, repeats)

    def run_in_turn(
        self,
        first: Start,
        further: Sequence[Start],
        variant: Path | None,
        repeats: Repeats | None = None,
        *,
        quiet: bool = False,
        within_ms: int | None = None,
        orders: Mapping[int, int] | None = None,
    ) -> list[Run] | None:
        """Run a kernel from each of these states, in this order, in one process."""
        if any(start.changes is None for start in further):
            return None
        with TemporaryFolder("outputs") as folder:
            result = self._replay(
                folder, first, variant, repeats, further, quiet=quiet, within_ms=within_ms, orders=orders
            )
            is_whole = result.states == len(further) or (result.states == 0 and within_ms is not None)
            failed = [Run(result.outcome, result.explanation, {})]
            states = result.states
            if result.outcome is ReplayOutcome.COMPLETED:
                failed = []
            elif find_missing_state(first.capture, folder) is not None:
                return failed
            elif variant is None:
                states = count_whole(first.capture, folder, len(further))
            elif result.phase == REPEAT_PHASE:
                return [_fail_further(result)]
            else:
                return None
            if not (is_whole or failed):
                return None
            folders = [folder / f"state_{number}" for number in range(1, states + 1)]
            if any(find_missing_state(first.capture, each) for each in (folder, *folders)):
                return None
            relocation = make_relocation(self._store, first.capture, variant, result)
            writes = result.split_writes()[1] if not failed else [None] * states
            ran = zip(further[:states], folders, writes, strict=True)
            with publish_staged(self._store) as transaction:
                runs = [_stage_run(transaction, folder, first.capture, result, relocation, repeats)]
                if failed:
                    runs = [replace(runs[0], outcome=ReplayOutcome.COMPLETED, explanation=None, writes=None)]
                for number, (start, each, written) in enumerate(ran, start=1):
                    outputs = stage_outputs(transaction, start.capture, each, relocation)
                    run = Run(ReplayOutcome.COMPLETED, None, outputs, result.outside, writes=written)
                    runs.append(replace(run, guard=result.find_guarded(number)))
            return runs + failed

    def _choose_limit_s(self, start: Start) -> float:
        if not start.is_perturbed:
            return self._timeout_s
        first_run_s = self._first_run_s or 0.0
        limit_s = max(_PERTURBED_LIMIT_S, _PERTURBED_FACTOR * first_run_s)
        if start.is_fresh:
            limit_s = max(_FRESH_LIMIT_S, _FRESH_FACTOR * first_run_s)
        return min(limit_s, self._timeout_s)

    def _replay(
        self,
        folder: Path,
        start: Start,
        variant: Path | None,
        repeats: Repeats | None,
        further: Sequence[Start] = (),
        *,
        quiet: bool = False,
        within_ms: int | None = None,
        orders: Mapping[int, int] | None = None,
    ) -> ReplayResult:
        """Replay in a process, from the first state and then from the further ones."""
        # Only the captured kernel has time for its further runs: a variant has what the user gave.
        budget_s = repeats.budget_ms / 1000 if repeats and variant is None else 0.0
        memories = {memory for each in (start, *further) for memory in each.pre_states.values()}
        unverified = self._verification.take(memories)
        request = ReplayRequest(
            variant=variant,
            variant_shape=self._variant_shape,
            compare=False,
            dump_folder=folder,
            changes_only=True,
            timeout_s=self._choose_limit_s(start) + budget_s,
            states_s=sum(map(self._choose_limit_s, further)),
            setup_s=self._timeout_s if start.is_perturbed else 0.0,
            timed=False,
            # The captured kernel may fault from a perturbed state; its messages would confuse the user.
            quiet=quiet or (start.is_perturbed and variant is None),
            repeats=repeats,
            states=tuple(each.changes or {} for each in further),
            guarded_states=_choose_guarded(repeats, further),
            state_orders=orders or {},
            states_within_ms=within_ms,
            watched=self._watched,
            verify=bool(unverified),
            verified=frozenset(memories - unverified),
        )
        is_verified = False
        try:
            result = replay_capture(self._store, start.capture, request, self._standbys)
            is_verified = result.outcome is ReplayOutcome.COMPLETED and result.states == len(further)
        finally:
            if not is_verified:
                self._verification.give_back(unverified)
        if not start.is_perturbed:
            self.baseline_instructions = result.baseline_instructions or self.baseline_instructions
            self.variant_instructions = result.variant_instructions or self.variant_instructions
        if self._standbys is not None and self._size_bytes > MAX_BYTES_AT_ONCE:
            self._standbys.settle()
        return result

    def _read_run(
        self, folder: Path, start: Start, variant: Path | None, result: ReplayResult, repeats: Repeats | None
    ) -> Run:
        """Store the outputs of a replay, and return what became of it."""
        missing = find_missing_state(start.capture, folder)
        if result.outcome is not ReplayOutcome.COMPLETED:
            if repeats is not None and result.outcome is ReplayOutcome.TIMED_OUT and missing is None:
                return _fail_further(result)
            return Run(result.outcome, result.explanation, {})
        if missing is not None:
            what = f"the replay gave no complete state of region {missing.base_address:#x}"
            return Run(ReplayOutcome.CRASHED, what, {})
        relocation = make_relocation(self._store, start.capture, variant, result)
        with publish_staged(self._store) as transaction:
            return _stage_run(transaction, folder, start.capture, result, relocation, repeats)


def _fail_further(result: ReplayResult) -> Run:
    """Return a run that ended, but a further one from the same state did not."""
    why = f"{result.explanation}: the first run ended, but a further one from the same state did not"
    return Run(result.outcome, why, {})


def _stage_run(
    transaction: Transaction,
    folder: Path,
    capture: Capture,
    result: ReplayResult,
    relocation: Relocation | None,
    repeats: Repeats | None,
) -> Run:
    """Return the run from the first state; its outputs are staged."""
    outputs = stage_outputs(transaction, capture, folder, relocation)
    wants_guard = repeats is not None and repeats.guard is not None
    return Run(
        result.outcome,
        result.explanation,
        outputs,
        result.outside,
        0 if relocation is None else relocation.words,
        *result.repeats,
        stage_differing(transaction, capture, outputs, folder, relocation),
        result.ran_once,
        result.unsettled,
        result.split_writes()[0],
        guard=(result.find_guarded(0) or GuardedRuns(0, 0, 0)) if wants_guard else None,
        without=result.without,
        was_kept=result.was_kept,
    )


def _choose_guarded(repeats: Repeats | None, further: Sequence[Start]) -> frozenset[int]:
    """Return the numbers of the further states from which there are guarded runs, too."""
    if repeats is None or repeats.guard is None or not repeats.guard.fresh:
        return frozenset()
    return frozenset(number for number, start in enumerate(further) if start.is_fresh)
