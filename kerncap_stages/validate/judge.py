"""The verdict: whether a variant does what the captured kernel did, from the captured state and from others.

1. Run the variant from the captured pre-state, several times; the replays of step 4 begin beside it.
2. Compare what it left with the golden post-state, but for what the program's own threads wrote there.
3. A variant that differs has failed. Say so if the captured kernel itself differs from replay to replay.
4. Perturb each region that the kernel may write, replay the captured kernel from there, then the variant, and
   compare the two. Regions after the first 16 are perturbed together.
5. Perturb the memory that no known pointer leads to, all at once.
6. A verdict needs something that the captured kernel is known to write: without, the variant fails.

Without a variant the captured kernel is judged: its replays against the golden state, and each other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kerncap_stages.manifests.validation import Coverage, Mode
from kerncap_stages.validate.arguments import pointers
from kerncap_stages.validate.compare.relocation import relocated_note
from kerncap_stages.validate.evidence import Comparison, Expectation, judge_stray_writes
from kerncap_stages.validate.explorer import MOST_REGIONS, Explorer, is_everywhere
from kerncap_stages.validate.host_writes import without_host_writes
from kerncap_stages.validate.judgement import (
    BOUNDS_TOO_WIDE,
    NOT_EVERYWHERE,
    NOTHING_KNOWN,
    UNREACHED_NOT_PERTURBED,
    Judgement,
    unreached_note,
)
from kerncap_stages.validate.perturb.start import Start
from kerncap_stages.validate.perturb.states import EVERYWHERE, Perturbation
from kerncap_stages.validate.steadiness import count_unsteady, plan_repeats, replay_repeatedly, unsteady_note

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.manifests.source import Source
    from kerncap_stages.replay.runner import Repeats
    from kerncap_stages.store import Store
    from kerncap_stages.validate.baselines import BaselineRun, Baselines
    from kerncap_stages.validate.explorer import Limits
    from kerncap_stages.validate.replayer import Run
    from kerncap_stages.validate.request import Settings
    from kerncap_stages.validate.speculation import Speculation

# A perturbed element is up to twice as large, and what is made of two such may have four times the error.
_WIDER = 4.0


class Judge:
    """Judges kernels against one capture."""

    def __init__(
        self,
        store: Store,
        capture: Capture,
        source: Source | None,
        settings: Settings,
        baselines: Baselines,
        replays: Speculation,
        limits: Limits | None = None,
    ) -> None:
        """``source`` may name the types of arguments that the kernel's symbol does not.

        ``baselines`` replays the captured kernel through ``replays``, which runs the variant, too.
        """
        self._store = store
        self._capture = capture
        self._settings = settings
        self._baselines = baselines
        self._replays = replays
        self._captured = Start(store, capture)
        arguments = pointers(store, capture, source)
        self._explorer = Explorer(store, capture, settings, baselines, arguments, limits)
        self._comparison = Comparison(store, capture, self._explorer, arguments)

    def judge(self, variant: Path | None) -> Judgement:
        """Compare a variant, or the captured kernel itself, with what the captured dispatch did.

        Raises what keeps a replay from being run at all; a kernel that faults or hangs is a failed verdict.
        """
        if variant is None:
            return self._judge_captured_kernel()
        judgement = Judgement(Mode.BYTE_EXACT if self._settings.bounds.exact else Mode.NUMERIC)
        if self._settings.perturb and self._settings.bounds.exact and self._capture.has_post:
            self._explorer.speculate(self._replays, variant, self._repeats(is_perturbed=True))
        run = self._replays.run(self._captured, variant, self._repeats(is_perturbed=False))
        if not run.completed:
            return judgement.fail(f"the variant {run.ending}")
        judgement = replace(judgement, coverage=Coverage.DIFFERENCE)
        golden: Mapping[int, MemoryRef] | None = self._golden()
        if golden is None:
            # A capture without a post-state: what the captured kernel does now stands in for it.
            baseline = self._baselines.run()
            if not baseline.completed:
                why = "the variant does, but nothing tells what it should write"
                return judgement.fail(f"the baseline does not replay: {baseline.explanation}; {why}")
            golden = baseline.outputs
        judgement, golden = self._judge_first(judgement, run, golden)
        if not judgement.passed:
            judgement = self._note_nondeterminism(judgement)
        elif self._settings.perturb:
            judgement = self._judge_perturbed(judgement, variant, golden)
        elif not judgement.knows_writes:
            judgement = judgement.note(NOTHING_KNOWN)
        if judgement.passed and judgement.changes_expected and not judgement.changes_made:
            judgement = judgement.fail(BOUNDS_TOO_WIDE)
        return judgement

    def _judge_first(
        self, judgement: Judgement, run: Run, golden: Mapping[int, MemoryRef]
    ) -> tuple[Judgement, Mapping[int, MemoryRef]]:
        """Judge a variant by its run from the captured state; also returns what it should have left there."""
        if run.relocated_words:
            judgement = judgement.note(relocated_note(run.relocated_words))
        judgement = self._judge_stray(judgement, self._captured, run)
        golden, notes = without_host_writes(self._store, self._capture, golden, run, self._baselines.run)
        wanted = Expectation(self._captured, golden, self._settings.bounds)
        judgement = self._comparison.judge_outputs(judgement.note(*notes), wanted, run)
        judgement = replace(judgement, variant_runs=1 + run.further_runs)
        if run.ran_once:
            judgement = judgement.note(f"the variant was run once from each state: {run.ran_once}")
        return self._judge_further(judgement, wanted, run), golden

    def _judge_captured_kernel(self) -> Judgement:
        golden = self._golden()
        runs = replay_repeatedly(
            self._store, self._capture, self._baselines, max(1, self._settings.baseline_runs), golden
        )
        judgement = Judgement(Mode.SMOKE if golden is None else Mode.BASELINE, baseline_runs=len(runs))
        if not runs[-1].completed:
            return judgement.fail(f"the baseline {runs[-1].ending}")
        unsteady = count_unsteady(self._store, runs)
        judgement = replace(judgement, nondeterministic_bytes=sum(unsteady.values()))
        if unsteady:
            judgement = judgement.note(f"not deterministic: {_differ(unsteady)} between replays")
        if golden is None:
            return judgement
        expected, notes = without_host_writes(self._store, self._capture, golden, runs[0], lambda: runs[-1])
        # What differs between two replays of the very same code says nothing against it.
        steady = {base: state for base, state in expected.items() if base not in unsteady}
        wanted = Expectation(self._captured, steady, self._settings.bounds)
        judgement = replace(judgement.note(*notes), coverage=Coverage.DIFFERENCE)
        return self._comparison.judge_outputs(judgement, wanted, runs[0])

    def _judge_perturbed(
        self, judgement: Judgement, variant: Path, golden: Mapping[int, MemoryRef]
    ) -> Judgement:
        """Judge a variant from states where regions that the kernel may write are perturbed."""
        regions = self._explorer.reach.candidates
        judgement, perturbed = self._judge_each(judgement, variant, regions[:MOST_REGIONS], golden)
        if judgement.passed and len(regions) > MOST_REGIONS:
            joint = self._explorer.find_joint_baseline(regions[MOST_REGIONS:])
            if joint is not None:
                judgement = self._judge_from(judgement, variant, joint)
                perturbed += len(regions) - MOST_REGIONS if is_everywhere(joint) else 0
            else:
                judgement = judgement.note(f"only {MOST_REGIONS} of {len(regions)} regions were perturbed")
        if regions and perturbed == len(regions):
            judgement = replace(judgement, coverage=Coverage.PERTURBED)
        elif regions and judgement.passed:
            judgement = judgement.note(NOT_EVERYWHERE)
        if judgement.passed and judgement.knows_writes:
            judgement = self._judge_unreached(judgement, variant, golden)
        elif judgement.passed:
            # It may write what nothing leads to in sight: a pointer made of numbers, or to const.
            others = self._explorer.reach.others[:MOST_REGIONS]
            judgement, _ = self._judge_each(judgement, variant, others, golden)
        if judgement.passed and not judgement.knows_writes:
            judgement = judgement.fail(NOTHING_KNOWN)
        return judgement

    def _judge_each(
        self,
        judgement: Judgement,
        variant: Path,
        regions: Iterable[Region],
        golden: Mapping[int, MemoryRef],
    ) -> tuple[Judgement, int]:
        """Judge a variant from one state for each region; also returns how many were perturbed everywhere."""
        perturbed = 0
        for region in regions:
            baseline = self._explorer.find_baseline(region, golden)
            if baseline is None:
                continue
            perturbed += baseline.start.trials[0].perturbation in EVERYWHERE
            if region.base_address in baseline.changed:  # else only read: the variant may read it or not
                judgement = self._judge_from(judgement, variant, baseline)
        return judgement, perturbed

    def _judge_unreached(
        self, judgement: Judgement, variant: Path, golden: Mapping[int, MemoryRef]
    ) -> Judgement:
        """Judge a variant where memory that no known pointer leads to is perturbed, if the kernel reaches it.

        A kernel may come to it by arithmetic on another address.
        """
        regions, left = self._explorer.unreached
        if left:
            judgement = judgement.note(unreached_note(left))
        if not regions:
            return judgement
        found = self._explorer.find_joint_baseline(regions)
        if found is None:
            return judgement.note(UNREACHED_NOT_PERTURBED)
        before = self._captured.pre_states
        as_captured = {base: post for base, post in golden.items() if post != before.get(base)}
        return judgement if found.changed == as_captured else self._judge_from(judgement, variant, found)

    def _judge_from(self, judgement: Judgement, variant: Path, baseline: BaselineRun) -> Judgement:
        """Compare a variant's replay from a perturbed state with the captured kernel's."""
        start = baseline.start
        run = self._replays.run(start, variant, self._repeats(is_perturbed=True))
        judgement = replace(
            judgement,
            pre_states=judgement.pre_states + 1,
            perturbed_bytes=judgement.perturbed_bytes + sum(each.region.size_bytes for each in start.trials),
        )
        if not run.completed:
            return judgement.fail(f"from another pre-state the variant {run.ending}")
        judgement = self._judge_stray(judgement, start, run)
        bounds = self._settings.bounds
        is_strong = any(trial.perturbation is Perturbation.STRONG for trial in start.trials)
        if bounds.atol is not None and not is_strong:
            bounds = replace(bounds, atol=bounds.atol * _WIDER)
        wanted = Expectation(start, baseline.outputs, bounds)
        judgement = self._comparison.judge_outputs(judgement, wanted, run)
        return self._judge_further(judgement, wanted, run)

    def _judge_stray(self, judgement: Judgement, start: Start, run: Run) -> Judgement:
        """Fail a variant for what it writes outside of captured memory and the captured kernel does not."""
        known: Sequence[tuple[int, int]] = self._replays.run(start, None).outside if run.outside else ()
        return judge_stray_writes(judgement, run, known)

    def _judge_further(self, judgement: Judgement, wanted: Expectation, run: Run) -> Judgement:
        """Judge whether further runs from the same state left the same, or what is as good."""
        if not run.differing:
            return judgement
        if not judgement.passed:
            return judgement.note(unsteady_note(run))
        # What the captured kernel does not leave the same each time either says nothing against the variant.
        repeats = self._repeats(is_perturbed=wanted.start.is_perturbed)
        baseline = self._replays.run(wanted.start, None, repeats)
        steady = self._comparison.without_unsteady(wanted, baseline)
        for outputs in run.differing:
            judgement = self._comparison.judge_outputs(judgement, steady, replace(run, outputs=outputs))
        if not judgement.passed:
            return judgement.fail(unsteady_note(run))
        and_so = "; the captured kernel has it too" if baseline.differing else ""
        return judgement.note(unsteady_note(run) + and_so)

    def _note_nondeterminism(self, judgement: Judgement) -> Judgement:
        """Say so if the captured kernel itself differs between replays."""
        runs = replay_repeatedly(self._store, self._capture, self._baselines, 2, self._golden())
        judgement = replace(judgement, baseline_runs=len(runs))
        if not all(run.completed for run in runs) or not (unsteady := count_unsteady(self._store, runs)):
            return judgement
        judgement = replace(judgement, nondeterministic_bytes=sum(unsteady.values()))
        return judgement.note(
            f"the captured kernel itself is not deterministic ({_differ(unsteady)} between replays of it): "
            "compare with a tolerance"
        )

    def _golden(self) -> dict[int, MemoryRef] | None:
        if not self._capture.has_post:
            return None
        return {
            region.base_address: region.post for region in self._capture.regions if region.post is not None
        }

    def _repeats(self, *, is_perturbed: bool) -> Repeats | None:
        return plan_repeats(self._settings, self._capture, is_perturbed=is_perturbed)


def _differ(unsteady: Mapping[int, int]) -> str:
    number = sum(unsteady.values())
    return "1 byte differs" if number == 1 else f"{number} bytes differ"
