"""The verdict: whether a variant does what the baseline did, from the captured state and from others."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kerncap_stages.manifests.validation import Coverage, Mode
from kerncap_stages.validation.ahead import Ahead
from kerncap_stages.validation.arguments import pointers
from kerncap_stages.validation.changed_states import ChangedStates
from kerncap_stages.validation.host_writes import without_host_writes
from kerncap_stages.validation.judgement import (
    BOUNDS_TOO_WIDE,
    NOTHING_KNOWN,
    UNREACHED_UNTRIED,
    Judgement,
    unreached_note,
)
from kerncap_stages.validation.outside import judge_outside
from kerncap_stages.validation.perturb import EVERYWHERE, MOST_REGIONS, Change, with_pre_state
from kerncap_stages.validation.relocated import relocated_note
from kerncap_stages.validation.repeatable import further_runs, unsteady_note
from kerncap_stages.validation.repeated import Repeated
from kerncap_stages.validation.runs import PATIENCE_S, Baselines, Run, run_once
from kerncap_stages.validation.weighing import Expectation, Weighing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.manifests.source import Source
    from kerncap_stages.store import Store
    from kerncap_stages.validation.arguments import Pointer
    from kerncap_stages.validation.runs import Together
    from kerncap_stages.validation.settings import Settings

# A changed element is up to twice as large, and what is made of two such may have four times the error.
_WIDER = 4.0
_LEAST_PATIENCE_S = 30.0
_PATIENCE = 20.0


class Judge:
    """Judges kernels against one capture."""

    def __init__(
        self, store: Store, capture: Capture, source: Source | None, settings: Settings, baselines: Baselines
    ) -> None:
        """``source`` may name the types of arguments that the kernel's symbol does not."""
        self._store = store
        self._capture = capture
        self._settings = settings
        self._baselines = baselines
        self._arguments: tuple[Pointer, ...] = pointers(store, capture, source)
        self._changed = ChangedStates(store, capture, settings, baselines, self._arguments)
        self._repeated = Repeated(store, capture, baselines)
        self._patience_s = settings.timeout_s
        self._judgement = Judgement(Mode.BYTE_EXACT if settings.bounds.exact else Mode.NUMERIC)
        self._weighing = Weighing(store, capture, self._judgement, self._changed, baselines, self._arguments)

    def judge(self, variant: Path | None) -> Judgement:
        """Compare a variant, or the baseline itself, with what the captured dispatch did.

        Raises what keeps a replay from being run at all; a kernel that faults or hangs is a failed verdict.
        """
        if variant is None:
            self._judge_baseline()
        else:
            self._judge_variant(variant)
        return self._judgement

    def _judge_variant(self, variant: Path) -> None:
        patience_s = min(PATIENCE_S, self._settings.timeout_s)
        with Ahead(self._capture, lambda start: self._run(start, variant, patience_s)) as ahead:
            if self._settings.perturb and self._settings.bounds.exact and self._capture.has_post:
                ahead.begin(self._changed, self._baselines)
            self._judge_beside(variant, ahead)

    def _run(self, start: Capture, variant: Path | None, timeout_s: float) -> Run:
        is_changed = start is not self._capture
        repeats = None if variant is None else further_runs(self._settings, start, is_changed=is_changed)
        standbys = self._baselines.standbys
        return run_once(self._store, start, variant, timeout_s, standbys=standbys, repeats=repeats)

    def _judge_beside(self, variant: Path, ahead: Ahead) -> None:
        judgement = self._judgement
        began = time.monotonic()
        run = self._run(self._capture, variant, self._settings.timeout_s)
        # From changed states a kernel may never end: it gets a good deal longer than from the captured one.
        patience_s = max(_LEAST_PATIENCE_S, _PATIENCE * (time.monotonic() - began))
        self._patience_s = self._baselines.patience_s = min(patience_s, self._settings.timeout_s)
        if not run.completed:
            judgement.fail(f"the variant {run.ending}")
            return
        golden = self._golden()
        judgement.coverage = Coverage.DIFFERENCE
        if golden is None:
            # A capture without a post-state: what the baseline does now stands in for it.
            baseline = self._baselines.run()
            if not baseline.completed:
                why = "the variant does, but nothing tells what it should write"
                judgement.fail(f"the baseline does not replay: {baseline.explanation}; {why}")
                return
            golden = dict(baseline.outputs)
        if run.relocated_words:
            judgement.note(relocated_note(run.relocated_words))
        judge_outside(judgement, run, partial(self._run, self._capture, None, self._patience_s))
        golden = without_host_writes(self._store, self._capture, golden, run, self._baselines.run, judgement)
        wanted = Expectation(self._capture, golden, self._settings.bounds)
        self._weighing.compare(wanted, run)
        judgement.variant_runs = 1 + run.further_runs
        if run.ran_once:
            judgement.note(f"the variant was run once from each state: {run.ran_once}")
        self._judge_further(wanted, run)
        if not judgement.passed:
            self._mention_nondeterminism()
        elif self._settings.perturb:
            self._judge_changed(variant, golden, ahead)
        elif not judgement.knows_writes:
            judgement.note(NOTHING_KNOWN)
        if judgement.passed and judgement.changes_expected and not judgement.changes_made:
            judgement.fail(BOUNDS_TOO_WIDE)

    def _golden(self) -> dict[int, MemoryRef] | None:
        if not self._capture.has_post:
            return None
        return {
            region.base_address: region.post for region in self._capture.regions if region.post is not None
        }

    def _judge_baseline(self) -> None:
        judgement = self._judgement
        golden = self._golden()
        judgement.mode = Mode.SMOKE if golden is None else Mode.BASELINE
        runs = self._repeated.replays(max(1, self._settings.baseline_runs), golden)
        judgement.baseline_runs = len(runs)
        if not runs[-1].completed:
            judgement.fail(f"the baseline {runs[-1].ending}")
            return
        unsteady = self._repeated.unsteady(runs)
        judgement.nondeterministic_bytes = sum(unsteady.values())
        if unsteady:
            judgement.note(f"not deterministic: {_differ(unsteady)} between replays")
        if golden is not None:
            judgement.coverage = Coverage.DIFFERENCE
            golden = without_host_writes(
                self._store, self._capture, golden, runs[0], lambda: runs[-1], judgement
            )
            # What differs between two replays of the very same code says nothing against it.
            steady = {base: state for base, state in golden.items() if base not in unsteady}
            self._weighing.compare(Expectation(self._capture, steady, self._settings.bounds), runs[0])

    def _mention_nondeterminism(self) -> None:
        runs = self._repeated.replays(2, self._golden())
        self._judgement.baseline_runs = len(runs)
        if all(run.completed for run in runs) and (unsteady := self._repeated.unsteady(runs)):
            self._judgement.nondeterministic_bytes = sum(unsteady.values())
            self._judgement.note(
                f"the captured kernel itself is not deterministic ({_differ(unsteady)} "
                "between replays of it): compare with a tolerance"
            )

    def _judge_further(self, wanted: Expectation, run: Run) -> None:
        """Whether further runs from the same state left the same, or what is as good."""
        judgement = self._judgement
        if not run.differing:
            return
        if not judgement.passed:
            judgement.note(unsteady_note(run))
            return
        # What the captured kernel does not leave the same each time either says nothing against the variant.
        repeats = further_runs(self._settings, wanted.start, is_changed=wanted.changed_base is not None)
        baseline = run_once(self._store, wanted.start, None, self._patience_s, repeats=repeats)
        steady = self._weighing.steady(wanted, baseline)
        for outputs in run.differing:
            self._weighing.compare(steady, replace(run, outputs=outputs))
        if judgement.passed:
            and_so = "; the captured kernel has it too" if baseline.differing else ""
            judgement.note(unsteady_note(run) + and_so)
        else:
            judgement.fail(unsteady_note(run))

    def _judge_changed(self, variant: Path, golden: Mapping[int, MemoryRef], ahead: Ahead) -> None:
        judgement, regions = self._judgement, self._changed.reach.candidates
        tried = self._try(variant, regions[:MOST_REGIONS], golden, ahead)
        if judgement.passed and len(regions) > MOST_REGIONS:
            further = regions[MOST_REGIONS:]
            together = self._changed.together(further)
            if together is not None:
                self._judge_together(variant, further, together)
                tried += len(further) if together.everywhere else 0
            else:
                judgement.note(
                    f"only {MOST_REGIONS} of {len(regions)} regions were tried with other contents"
                )
        if regions and tried == len(regions):
            judgement.coverage = Coverage.PERTURBED
        elif regions and judgement.passed:
            judgement.note(
                "some regions could not be tried with other contents everywhere: the kernel does not run on "
                "them, or they are too large"
            )
        if judgement.passed and judgement.knows_writes:
            self._try_unreached(variant, golden)
        elif judgement.passed:
            # It may write what nothing leads to in sight: a pointer made of numbers, or to const.
            self._try(variant, self._changed.reach.others[:MOST_REGIONS], golden, ahead)
        if judgement.passed and not judgement.knows_writes:
            judgement.fail(NOTHING_KNOWN)

    def _try(
        self, variant: Path, regions: Iterable[Region], golden: Mapping[int, MemoryRef], ahead: Ahead
    ) -> int:
        """Judge the variant from changed states of regions; returns how many could be changed everywhere."""
        tried = 0
        for region in regions:
            state, baseline = self._changed.baseline(region, golden)
            if state is None or baseline is None:
                continue
            tried += state.change in EVERYWHERE
            if baseline.outputs.get(region.base_address) == state.pre:
                continue  # only read: the variant may read it or not
            changed = with_pre_state(self._capture, region, state.pre)
            run = ahead.completed(region, state.pre)
            run = run or self._run(changed, variant, self._patience_s)
            self._judge_from(changed, [region], baseline, run, gently=state.change is not Change.POISON)
        return tried

    def _judge_together(self, variant: Path, regions: Sequence[Region], found: Together) -> None:
        """Judge the variant from a state where all of these are changed."""
        run = self._run(found.start(), variant, self._patience_s)
        self._judge_from(found.start(), regions, found.run, run, gently=True)

    def _try_unreached(self, variant: Path, golden: Mapping[int, MemoryRef]) -> None:
        """Judge the variant where all other data is changed, if the captured kernel reaches any of it.

        Nothing in sight leads there; a kernel may come to it by arithmetic on another address.
        """
        regions, left = self._changed.unreached
        if left:
            self._judgement.note(unreached_note(left))
        found = self._changed.together(regions) if regions else None
        if regions and found is None:
            self._judgement.note(UNREACHED_UNTRIED)
        before = {region.base_address: region.pre for region in self._capture.regions}
        as_captured = {base: post for base, post in golden.items() if post != before[base]}
        if found is not None and found.changed != as_captured:
            self._judge_together(variant, regions, found)

    def _judge_from(
        self, changed: Capture, regions: Sequence[Region], baseline: Run, run: Run, *, gently: bool
    ) -> None:
        """Compare a variant's replay from a changed state with the baseline's."""
        judgement = self._judgement
        judgement.pre_states += 1
        judgement.poisoned_bytes += sum(region.size_bytes for region in regions)
        if not run.completed:
            judgement.fail(f"from another pre-state the variant {run.ending}")
            return
        judge_outside(judgement, run, partial(self._run, changed, None, self._patience_s))
        bounds = self._settings.bounds
        if bounds.atol is not None and gently:
            bounds = replace(bounds, atol=bounds.atol * _WIDER)
        wanted = Expectation(changed, baseline.outputs, bounds, regions[0].base_address)
        self._weighing.compare(wanted, run)
        self._judge_further(wanted, run)


def _differ(unsteady: Mapping[int, int]) -> str:
    number = sum(unsteady.values())
    return "1 byte differs" if number == 1 else f"{number} bytes differ"
