"""Finds nondeterminism by repeated runs: one run cannot show a race, or memory that a kernel keeps."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from kerncap_stages.replay.runner import Repeats
from kerncap_stages.replay.variant import find_runtime_regions
from kerncap_stages.validate.compare.regions import count_changed_bytes
from kerncap_stages.validate.host_writes import find_host_writes
from kerncap_stages.validate.perturb.start import can_put_back
from kerncap_stages.validate.replays.outputs import find_golden

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.replay.runner import Guard
    from kerncap_stages.store import Store
    from kerncap_stages.validate.judgement import Judgement
    from kerncap_stages.validate.perturb.start import Start
    from kerncap_stages.validate.replays.baselines import Baselines
    from kerncap_stages.validate.replays.replayer import Run, SingleReplayer
    from kerncap_stages.validate.request import JudgeSettings

_MAX_REPLAYS = 8
# Runs of a variant from the captured state, and the time for them; on a real GPU it is mostly enough for all.
_MAX_RUNS = 32
_BUDGET_MS = 100
# A variant that counts its launches is run more often than that. It cannot know how often.
_UNSETTLED_RUNS = range(64, 129)
# With bounds, or other orders of waves, outputs of further runs may differ: those of this many are compared.
_KEPT = 3
# Runs of the captured kernel from one state that show by how much its own outputs differ. They have time
# for all on a machine with too much to do: a few show less than the variant's.
_SAMPLES = Repeats(15, budget_ms=2500, kept=7)
KEPT_MEMORY = (
    "not deterministic: from the same state the variant gave other outputs in a process of its own than "
    "after another run: memory that it keeps between runs, or a race"
)


def plan_repeats(
    settings: JudgeSettings,
    capture: Capture,
    seed: int | None,
    guard: Guard | None = None,
    order: int | None = None,
    *,
    is_perturbed: bool,
) -> Repeats | None:
    """Decide how often a variant is run again from a state; None: not at all.

    seed: decides how many runs there are of a variant whose own variables change in each. guard: of further
    runs from the captured state, unless perturbed states are left out. order: as in ``Repeats``.
    From a perturbed state a kernel may write other bytes than it did, so the whole state must be restored.
    """
    wanted = settings.variant_runs or _MAX_RUNS
    if wanted == 1 or not capture.has_post:
        return None
    is_small = can_put_back(capture)
    order = order if is_small else None
    if is_perturbed:
        return Repeats(1, budget_ms=0, order=order) if is_small else None
    budget_ms = _BUDGET_MS if settings.variant_runs is None else int(settings.timeout_s * 500)
    kept = 1 if settings.bounds.is_exact and order is None else _KEPT
    unsettled = 0
    if settings.variant_runs is None:
        chance = secrets.randbelow(len(_UNSETTLED_RUNS)) if seed is None else seed
        unsettled = _UNSETTLED_RUNS[chance % len(_UNSETTLED_RUNS)]
    guard = guard if settings.perturb else None
    return Repeats(wanted - 1, budget_ms, kept, is_small, unsettled, guard, order)


def replay_repeatedly(
    store: Store,
    capture: Capture,
    baselines: Baselines,
    count: int,
    golden: Mapping[int, MemoryRef] | None,
) -> list[Run]:
    """Replay the captured kernel from the captured state ``count`` times, or until one replay fails.

    While all replays agree with each other but not with the golden state, further ones follow: a kernel that
    is not deterministic may give the same outputs twice.
    """
    runs: list[Run] = []
    while len(runs) < max(count, _MAX_REPLAYS):
        if len(runs) >= count and not _needs_more_replays(store, capture, runs, golden or {}):
            break
        runs.append(baselines.run(len(runs)))
        if not runs[-1].completed:
            break
    return runs


def _needs_more_replays(
    store: Store, capture: Capture, runs: list[Run], golden: Mapping[int, MemoryRef]
) -> bool:
    """Whether a region is the same after all replays, but not as in the golden state."""
    compared = golden.keys() - find_runtime_regions(capture)
    states = {base: {run.outputs.get(base) for run in runs} for base in compared}
    odd = {base for base, seen in states.items() if len(seen) == 1 and golden[base] not in seen}
    by_host = find_host_writes(store, capture, golden, runs[0]) if odd else []
    odd -= {
        part.region.base_address
        for part in by_host
        if part.expected in states.get(part.region.base_address, ())
    }
    return bool(odd)


NOT_IN_OTHER_ORDERS = (
    "the captured kernel does not complete in other orders of waves, so the variant did not run in them"
)


class OwnDifferences:
    """Replays of the captured kernel that show by how much its own outputs differ."""

    def __init__(
        self,
        store: Store,
        capture: Capture,
        baselines: Baselines,
        replayer: SingleReplayer,
        order: int | None = None,
    ) -> None:
        """``baselines``: replays from the captured state, which later verdicts use, too.

        order: as in ``Repeats``.
        """
        self.order = self._first_order = order
        self.notes: tuple[str, ...] = ()
        self._store = store
        self._capture = capture
        self._baselines = baselines
        self._replayer = replayer
        self._sampled: dict[Hashable, Run] = {}  # by the key of the state

    def begin_variant(self) -> None:
        """Try other orders of waves again: a replay for an earlier variant may have timed out."""
        self.order, self.notes = self._first_order, ()

    def note(self, judgement: Judgement) -> Judgement:
        """Add a note if outputs of the captured kernel differ from the captured state."""
        golden = find_golden(self._capture)
        runs = replay_repeatedly(self._store, self._capture, self._baselines, 2, golden)
        judgement = replace(judgement, baseline_runs=len(runs))
        if not all(run.completed for run in runs):
            return judgement
        differing = count_nondeterministic_bytes(self._store, runs)
        if not differing:
            return judgement
        judgement = replace(judgement, nondeterministic_bytes=sum(differing.values()))
        return judgement.note(
            f"the captured kernel itself is not deterministic ({describe_differing(differing)} between its "
            "replays), but the variant differs by more, or elsewhere: a tolerance allows that"
        )

    def drops_order(self, start: Start) -> bool:
        """Whether the captured kernel does not complete in other orders of waves.

        If so, nothing is run in them from now on.
        """
        if self.order is None:
            return False
        self.sample(start)
        return bool(self.notes)

    def sample(self, start: Start) -> Run | None:
        """Return a run of the captured kernel from a state, with further ones that differ from it.

        There are no further ones if the state is too large to be put back between runs. None if it fails.
        """
        if start.key not in self._sampled:
            samples = replace(_SAMPLES, order=self.order) if can_put_back(self._capture) else None
            run = self._replayer.run(start, None, samples)
            if samples is not None and run.completed and not (run.further_runs or run.ran_once):
                run = self._replayer.run(start, None, samples)  # that was one which was begun for another use
            if not run.completed and samples is not None and self.order is not None:
                self.order, self.notes = None, (NOT_IN_OTHER_ORDERS,)
                return self.sample(start)
            if not run.completed:
                return None
            self._sampled[start.key] = run
        return self._sampled[start.key]

    def sample_apart(self, start: Start) -> bool:
        """Sample again in a process of its own, if that was in one that is kept; whether there is more now.

        In another process the addresses of a module's functions are others.
        """
        here = self._sampled.get(start.key)
        if here is None or not here.was_kept:
            return False
        apart = self._replayer.run(start, None, replace(_SAMPLES, apart=True))
        seen = (apart.outputs, *apart.differing) if apart.completed else ()
        differing = tuple(outputs for outputs in seen if outputs != here.outputs)
        self._sampled[start.key] = replace(here, differing=(*here.differing, *differing), was_kept=False)
        return bool(differing)


def count_nondeterministic_bytes(store: Store, runs: list[Run]) -> dict[int, int]:
    """Count the bytes that differ between replays, by the base address of their region."""
    first, *others = runs
    found: dict[int, int] = {}
    for base, state in first.outputs.items():
        count = sum(count_changed_bytes(store, state, other.outputs[base]) for other in others)
        if count:
            found[base] = count
    return found


def explain_nondeterminism(run: Run, order: int | None = None) -> str:
    """Explain that the runs of a variant differ. ``order``: as in ``Repeats``."""
    orders = "" if order is None else " (half of them with another order of waves)"
    return (
        f"not deterministic: {run.differing_runs} of {run.further_runs} further runs of the variant from the "
        f"same state{orders} gave other outputs than its first: a race, or memory that it keeps between runs"
    )


def explain_runs(run: Run) -> list[str]:
    """Explain what the number of runs of a variant leaves open, and what its replay did without."""
    if run.ran_once:
        return [f"the variant was run once from each state: {run.ran_once}", *run.without]
    if run.unsettled:
        return [
            f"variables of the variant's own still changed after {run.further_runs} further runs from the "
            "same state: it may count its launches, and what later ones do is not known",
            *run.without,
        ]
    return [*run.without]


def describe_differing(differing: Mapping[int, int]) -> str:
    """Count the bytes that differ, for people. ``differing``: by the base address of their region."""
    number = sum(differing.values())
    return "1 byte differs" if number == 1 else f"{number} bytes differ"
