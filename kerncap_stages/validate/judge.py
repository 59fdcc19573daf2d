"""Judges a variant: its outputs must be the captured kernel's, from the captured and from perturbed states.

1. Run the variant from the captured pre-state, several times. Begin the replays of step 4 at the same time.
   A variant that does not complete, or that writes outside the captured memory, has failed.
2. Compare its outputs with the golden post-state, without the bytes that threads of the program wrote. If the
   capture has no post-state, a replay of the captured kernel stands in for it.
3. If they differ by more than replays of the captured kernel do (``own_comparison``), the variant has failed.
   With a reference, it has also failed if it is less exact than the captured kernel (``precision``).
4. Perturb each region that the kernel may write, those after the first 16 together. Replay the captured
   kernel from there; if it changes the region, replay the variant, too, and compare their outputs.
5. If no write is known yet, perturb up to 16 regions that no known pointer leads to, one by one.
6. Perturb the memory that no known pointer leads to, and give all inputs fresh values: in one state, or two.
   Then take other states with fresh values: few of them, other signs, more zeros (``fresh_states``).
7. Fail the variant if the captured kernel is still not known to write anything, or in guarded runs.

``--quick`` leaves out steps 4 to 7: if no write is known, a note says so. Without a variant, the first replay
of the captured kernel is compared with the golden state, without regions in which its replays differ.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kerncap_stages.manifests.validation import Coverage, Mode
from kerncap_stages.validate.arguments import find_pointers
from kerncap_stages.validate.compare.relocation import describe_relocation
from kerncap_stages.validate.explorer import MAX_REGIONS, Explorer, is_everywhere
from kerncap_stages.validate.host_writes import exclude_host_writes
from kerncap_stages.validate.judgement import (
    BOUNDS_TOO_WIDE,
    NOT_EVERYWHERE,
    NOT_FRESH,
    NOTHING_KNOWN,
    UNREACHED_NOT_PERTURBED,
    Judgement,
    are_too_large,
    explain_kept,
    explain_not_fresh,
    explain_seed,
    explain_unreached,
    find_kept,
    judge_precision,
    note_unseen,
)
from kerncap_stages.validate.nondeterminism import (
    KEPT_MEMORY,
    OwnDifferences,
    count_nondeterministic_bytes,
    describe_differing,
    explain_nondeterminism,
    explain_runs,
    plan_repeats,
    replay_repeatedly,
)
from kerncap_stages.validate.own_comparison import OwnComparison
from kerncap_stages.validate.perturb.expectation import Expectation
from kerncap_stages.validate.perturb.fresh import Variety
from kerncap_stages.validate.perturb.start import Start
from kerncap_stages.validate.perturb.states import EVERYWHERE, Perturbation
from kerncap_stages.validate.precision.measure import Precision
from kerncap_stages.validate.replays.outputs import find_golden
from kerncap_stages.validate.unexpected_writes import UnexpectedWrites

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.manifests.source import Source
    from kerncap_stages.replay.runner import Repeats
    from kerncap_stages.store import Store
    from kerncap_stages.validate.explorer import Limits
    from kerncap_stages.validate.replays.baselines import BaselineRun, Baselines
    from kerncap_stages.validate.replays.replayer import Run
    from kerncap_stages.validate.replays.speculation import Speculation
    from kerncap_stages.validate.request import JudgeSettings

# A perturbed element is up to twice as large, so the product of two may have four times the error.
_ERROR_FACTOR = 4.0


class Judge:
    """Judges kernels against one capture."""

    def __init__(
        self,
        store: Store,
        capture: Capture,
        source: Source | None,
        settings: JudgeSettings,
        baselines: Baselines,
        replays: Speculation,
        limits: Limits | None = None,
    ) -> None:
        """``source``: tells types of arguments that the kernel's symbol does not.

        ``baselines`` replays the captured kernel with ``replays``, which also runs the variant.
        """
        self._store = store
        self._capture = capture
        self._settings = settings
        self._baselines = baselines
        self._replays = replays
        self._captured = Start(store, capture)
        arguments = find_pointers(store, capture, source)
        self._seed = settings.choose_seed()
        self._explorer = Explorer(
            *(store, capture, settings, baselines, arguments, replays, self._seed, limits, source)
        )
        self._comparison = OwnComparison(store, capture, self._explorer, arguments)
        order = self._seed if capture.device.software else None
        self._own = OwnDifferences(store, capture, baselines, replays, order)
        self._unexpected = UnexpectedWrites(self._explorer.objects, capture, arguments, replays, baselines)
        self._precision = Precision(store, capture, source, arguments, settings)

    def find_fresh_values(self) -> None:
        """Replay the captured kernel from fresh values now: all variants that are judged later need that."""
        if self._seed is not None and self._explorer.inputs.fresh:
            list(self._explorer.fresh.find_others())

    def judge(self, variant: Path | None) -> Judgement:
        """Judge a variant, or the captured kernel itself.

        Raises an error if a replay cannot be run. A kernel that faults or hangs gives a failed verdict.
        """
        if variant is None:
            return self._judge_captured_kernel()
        self._own.begin_variant()
        judgement = Judgement(Mode.BYTE_EXACT if self._settings.bounds.is_exact else Mode.NUMERIC)
        if self._settings.perturb and self._settings.bounds.is_exact and self._capture.has_post:
            self._explorer.speculate(
                self._captured,
                variant,
                self._plan_repeats(is_perturbed=False),
                self._plan_repeats(is_perturbed=True),
            )
        run = self._replays.run(self._captured, variant, self._plan_repeats(is_perturbed=False))
        if not run.completed and self._own.drops_order(self._captured):
            run = self._replays.run(self._captured, variant, self._plan_repeats(is_perturbed=False))
        if not run.completed:
            return judgement.fail(f"the variant {run.ending}")
        judgement = replace(judgement, coverage=Coverage.DIFFERENCE)
        golden: Mapping[int, MemoryRef] | None = find_golden(self._capture)
        if golden is None:
            # The capture has no post-state: use the outputs of a replay of the captured kernel instead.
            baseline = self._baselines.run()
            if not baseline.completed:
                why = f"the captured kernel does not replay ({baseline.explanation})"
                return judgement.fail(f"{why}, so the variant's expected outputs are not known")
            golden = baseline.outputs
        judgement, golden = self._judge_first(judgement, run, golden)
        if not judgement.passed:
            judgement = self._own.note(judgement)
        elif self._settings.perturb:
            judgement = self._judge_perturbed(judgement, variant, golden)
            judgement = self._unexpected.judge_guarded(judgement, variant)
        elif not judgement.knows_writes:
            judgement = judgement.note(NOTHING_KNOWN)
        judgement = judgement.note(*self._own.notes)
        if judgement.passed and judgement.changes_expected and not judgement.changes_made:
            judgement = judgement.fail(BOUNDS_TOO_WIDE)
        return judgement

    def _judge_first(
        self, judgement: Judgement, run: Run, golden: Mapping[int, MemoryRef]
    ) -> tuple[Judgement, Mapping[int, MemoryRef]]:
        """Judge a variant by its run from the captured state; also returns the outputs expected there."""
        if run.relocated_words:
            judgement = judgement.note(describe_relocation(run.relocated_words))
        repeats = self._plan_repeats(is_perturbed=False)
        judgement = self._unexpected.judge(judgement, self._captured, run, golden, repeats)
        golden, notes = exclude_host_writes(self._store, self._capture, golden, run, self._baselines.run)
        wanted = Expectation(self._captured, golden, self._settings.bounds)
        judgement = judgement.note(*notes)
        judgement, wanted = self._comparison.judge_with_own(judgement, wanted, run, self._own)
        judgement = replace(judgement, variant_runs=1 + run.further_runs)
        judgement = judgement.note(*explain_runs(run))
        judgement = judge_precision(self._precision, judgement, wanted, run)
        return self._judge_further(judgement, wanted, run), golden

    def _judge_captured_kernel(self) -> Judgement:
        golden = find_golden(self._capture)
        runs = replay_repeatedly(
            self._store, self._capture, self._baselines, max(1, self._settings.baseline_runs), golden
        )
        judgement = Judgement(Mode.SMOKE if golden is None else Mode.BASELINE, baseline_runs=len(runs))
        if not runs[-1].completed:
            return judgement.fail(f"the captured kernel {runs[-1].ending}")
        differing = count_nondeterministic_bytes(self._store, runs)
        judgement = replace(judgement, nondeterministic_bytes=sum(differing.values()))
        if differing:
            judgement = judgement.note(f"not deterministic: {describe_differing(differing)} between replays")
        if golden is None:
            return judgement
        expected, notes = exclude_host_writes(self._store, self._capture, golden, runs[0], lambda: runs[-1])
        # Regions that differ between replays of the same code do not count against it.
        deterministic = {base: state for base, state in expected.items() if base not in differing}
        wanted = Expectation(self._captured, deterministic, self._settings.bounds)
        judgement = replace(judgement.note(*notes), coverage=Coverage.DIFFERENCE)
        judgement = judge_precision(self._precision, judgement, wanted, runs[0])
        return self._comparison.judge_outputs(judgement, wanted, runs[0])

    def _judge_perturbed(
        self, judgement: Judgement, variant: Path, golden: Mapping[int, MemoryRef]
    ) -> Judgement:
        """Judge a variant from states in which regions that the kernel may write are perturbed."""
        regions = self._explorer.reach.candidates
        judgement, perturbed = self._judge_each(judgement, variant, regions[:MAX_REGIONS], golden)
        if judgement.passed and len(regions) > MAX_REGIONS:
            joint = self._explorer.find_joint_baseline(regions[MAX_REGIONS:])
            if joint is not None:
                judgement = self._judge_from(judgement, variant, joint)
                perturbed += len(regions) - MAX_REGIONS if is_everywhere(joint) else 0
            else:
                judgement = judgement.note(f"only {MAX_REGIONS} of {len(regions)} regions were perturbed")
        if regions and perturbed == len(regions):
            judgement = replace(judgement, coverage=Coverage.PERTURBED)
        elif regions and judgement.passed:
            judgement = judgement.note(NOT_EVERYWHERE)
        if judgement.passed and not judgement.knows_writes:
            # It may write regions that no known pointer leads to, or only pointers to const.
            others = self._explorer.reach.others[:MAX_REGIONS]
            judgement, _ = self._judge_each(judgement, variant, others, golden)
        if judgement.passed:
            judgement = self._judge_fresh(judgement, variant)
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
            if region.base_address in baseline.changed:  # else it is only read, which a variant need not do
                judgement = self._judge_from(judgement, variant, baseline)
        return judgement, perturbed

    def _judge_fresh(self, judgement: Judgement, variant: Path) -> Judgement:
        """Judge a variant with unreached memory perturbed and fresh values of inputs."""
        (unreached, not_perturbed), inputs = self._explorer.unreached, self._explorer.inputs
        judgement = judgement.note(*explain_unreached(not_perturbed))
        if self._seed is None:
            return self._judge_unreached(judgement, variant, unreached)
        judgement = replace(judgement, inputs_kept=are_too_large(inputs))
        judgement = judgement.note(*explain_not_fresh(inputs, self._explorer.find_input_parts))
        found = self._explorer.fresh.find_baseline() if inputs.fresh else None
        if found is None or not found[1]:
            judgement = self._judge_unreached(judgement, variant, unreached)
        if found is None:
            judgement = replace(judgement, inputs_kept=bool(inputs.fresh or inputs.kept))
            why = (self._explorer.fresh.left_out.explain() or [NOT_FRESH]) if inputs.fresh else []
            return judgement.note(*why) if judgement.passed else judgement
        judgement = replace(self._judge_from(judgement, variant, baseline := found[0]), seed=self._seed)
        others = list(self._explorer.fresh.find_others()) if judgement.passed else []
        if judgement.passed:
            judgement = judgement.note(*self._explorer.fresh.left_out.explain())
        kept = [*find_kept(inputs.fresh, [baseline, *others]), *self._explorer.kept_variables]
        judgement = judgement.note(*explain_kept(map(self._explorer.find_input_parts, kept)))
        self._explorer.begin_turns(self._captured, others, variant, self._plan_repeats(is_perturbed=True))
        for other in others:
            judgement = self._judge_from(judgement, variant, other) if judgement.passed else judgement
        unseen = self._explorer.fresh.find_unseen(inputs.read_in_parts if judgement.passed else [])
        judgement = note_unseen(judgement, map(self._explorer.find_input_parts, unseen))
        return judgement if judgement.passed else judgement.note(explain_seed(self._seed))

    def _judge_unreached(self, judgement: Judgement, variant: Path, regions: Sequence[Region]) -> Judgement:
        """Judge a variant from a state in which memory that no known pointer leads to is perturbed.

        It may be reached by arithmetic on another address, and a variant may write what was there before.
        """
        if not regions:
            return judgement
        found = self._explorer.find_joint_baseline(regions)
        if found is None:
            return judgement.note(UNREACHED_NOT_PERTURBED)
        return self._judge_from(judgement, variant, found)

    def _judge_from(self, judgement: Judgement, variant: Path, baseline: BaselineRun) -> Judgement:
        """Compare a variant's replay from a perturbed state with the captured kernel's."""
        start = baseline.start
        repeats = self._plan_repeats(is_perturbed=True)
        run = self._replays.run_after(self._captured, start, variant, repeats)
        if not run.completed and self._own.drops_order(start):
            repeats = self._plan_repeats(is_perturbed=True)
            run = self._replays.run(start, variant, repeats)
        judgement = replace(
            judgement,
            pre_states=judgement.pre_states + 1,
            perturbed_bytes=judgement.perturbed_bytes + sum(each.region.size_bytes for each in start.trials),
        )
        if not run.completed:
            return judgement.fail(f"from {start.fresh_name or 'a perturbed state'} the variant {run.ending}")
        judgement = self._unexpected.judge(judgement, start, run, baseline.outputs, repeats)
        bounds = self._settings.bounds
        is_strong = any(trial.perturbation is Perturbation.STRONG for trial in start.trials)
        if bounds.atol is not None and not is_strong:
            bounds = replace(bounds, atol=bounds.atol * _ERROR_FACTOR)
        wanted = Expectation(start, baseline.outputs, bounds)
        compared, wanted = self._comparison.judge_with_own(judgement, wanted, run, self._own)
        if run.in_turn and not compared.passed:
            alone = self._replays.run(start, variant, repeats)
            if alone.completed and alone.outputs != run.outputs:
                compared = compared.note(KEPT_MEMORY)
        if start.variety is Variety.ALL:
            replay_again = partial(self._replays.run, start, None, repeats)
            compared = judge_precision(self._precision, compared, wanted, run, replay_again)
        return self._judge_further(compared, wanted, run)

    def _judge_further(self, judgement: Judgement, wanted: Expectation, run: Run) -> Judgement:
        """Judge further runs of a variant from the same state: their outputs must be right, too."""
        if not run.differing:
            return judgement
        own = self._own.sample(wanted.start)
        why = explain_nondeterminism(run, self._own.order)
        too = "; replays of the captured kernel differ, too" if own is not None and own.differing else ""
        if not judgement.passed:
            return judgement.note(why + too)
        # Outputs in which replays of the captured kernel differ, too, do not count against the variant.
        if own is not None:
            wanted = self._comparison.allow_own_differences(wanted, own, exclude=True)
        for outputs in run.differing:
            if not judgement.passed:
                break  # one wrong run is evidence enough
            seen = replace(run, outputs=outputs)
            judgement, wanted = self._comparison.judge_further(judgement, wanted, seen, self._own)
        return (
            judgement.allow(wanted.own.values()).note(why + too) if judgement.passed else judgement.fail(why)
        )

    def _plan_repeats(self, *, is_perturbed: bool) -> Repeats | None:
        guard = self._unexpected.guard
        order = self._own.order
        return plan_repeats(
            self._settings, self._capture, self._seed, guard, order, is_perturbed=is_perturbed
        )
