"""Finds the state in which all inputs have fresh values, as strong as the captured kernel bears them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.validate.fresh_states.others import OtherStates
from kerncap_stages.validate.perturb.fresh import Variety
from kerncap_stages.validate.perturb.left_out import DOES_NOT_COMPLETE, NOT_TRIED_ALONE, LeftOut
from kerncap_stages.validate.perturb.lost_numbers import OutputJudge, label_region
from kerncap_stages.validate.perturb.states import FRESH, Perturbation, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.manifests.validation import BaselineReplay
    from kerncap_stages.store import Store
    from kerncap_stages.validate.arguments import Span
    from kerncap_stages.validate.lone import LoneStates
    from kerncap_stages.validate.perturb.start import Start
    from kerncap_stages.validate.replays.baselines import BaselineRun, Baselines

# So many inputs are tried by themselves; of further ones only floats change.
_MAX_INPUTS = 16
# So many inputs that are fresh in parts are tried alone, to see whether outputs depend on these parts.
_MAX_TRIED_ALONE = 4
# After this many trials that did not end in time, only floats change.
_MAX_SLOW_TRIALS = 2


class FreshInputs:
    """Gives each input the strongest fresh values that the captured kernel bears."""

    def __init__(
        self,
        baselines: Baselines,
        inputs: Sequence[tuple[Region, tuple[Span, ...]]],
        parts_alone: Sequence[tuple[Span, ...]],
        beside: Sequence[Trial] | None,
        begin: Callable[[Sequence[Start]], None],
        store: Store,
        *,
        is_exact: bool,
        seed: int,
        lone: LoneStates | None = None,
    ) -> None:
        """``inputs``: with the parts whose elements have one type, and get fresh values.

        parts_alone: as those of ``inputs``, where each is tried by itself; they are the same for each seed.
        beside: perturbations of memory that no known pointer leads to, for the same state; None: none.
        begin: begins replays of the captured kernel. store: has the contents of memory.
        is_exact: whether outputs must be the same, byte for byte. lone: finds one more state; None: does not.
        """
        self._baselines = baselines
        self._inputs = inputs
        self._parts_alone = parts_alone
        self._beside = beside
        self._seed = seed
        # With bounds values stay in distribution, so that rounding errors stay as the bounds assume.
        self._strongest = Perturbation.FRESH_ANY if is_exact else Perturbation.FRESH_IN_DISTRIBUTION
        self._outputs = OutputJudge(store, inputs)
        self._starts: dict[tuple[object, ...], Start] = {}
        self._failed_starts: set[object] = set()
        self._found: tuple[BaselineRun, bool] | None = None
        self._was_sought = False
        self._milder: dict[int, str] = {}  # why an input has not its strongest values, by its number
        self._unseen: dict[tuple[int, ...], list[Region]] = {}  # an evaluation asks for each variant
        self._slow_trials = 0  # states of all inputs that did not end in time
        self.left_out = LeftOut()  # what is not tried
        self._others = OtherStates(
            baselines, inputs, self._outputs, self.left_out, begin, store, is_exact=is_exact, lone=lone
        )

    @property
    def found(self) -> BaselineRun | None:
        """The replay that ``find_baseline`` found; None if it was not called, or found none."""
        return None if self._found is None else self._found[0]

    def guess_start(self) -> Start | None:
        """Return the state that is tried first; None if that depends on replays that were not made yet.

        None, too, if ``find_baseline`` has found no state: an evaluation asks for each variant.
        """
        if self._was_sought and self._found is None:
            return None
        levels = self._strongest_levels
        if self._has_levels:
            found = self._find_levels(self._baselines.find_kept)
            if found is None:
                return None
            levels = found
        return self._make_start(levels, with_unreached=self._beside is not None)

    def find_baseline(self) -> tuple[BaselineRun, bool] | None:
        """Replay the captured kernel from a state in which the inputs have fresh values.

        Second: whether memory that no known pointer leads to is perturbed in that state, too. None if the
        kernel completes from no such state. Further calls replay nothing.
        """
        if not self._was_sought:
            self._found, self._was_sought = self._find_baseline(), True
        return self._found

    def find_unseen(self, regions: Sequence[Region]) -> list[Region]:
        """Find which of these inputs change no output if they alone are as in the state that was found.

        The kernel may not read where they have fresh values. Many inputs are tried together.
        """
        key = tuple(region.base_address for region in regions)
        if key not in self._unseen:
            self._unseen[key] = list(self._find_unseen(regions))
        return self._unseen[key]

    def _find_unseen(self, regions: Sequence[Region]) -> Iterator[Region]:
        if self._found is None:
            return
        trials = {trial.region.base_address: trial for trial in self._found[0].start.trials if trial.is_fresh}
        tried = [region for region in regions if region.base_address in trials]
        groups = [[region] for region in tried] if len(tried) <= _MAX_TRIED_ALONE else [tried]
        for group in groups:
            found, chosen = self._found[0], [trials[region.base_address] for region in group]
            is_same = len(chosen) == len(found.start.trials)  # all are fresh, and nothing else is perturbed
            run = found if is_same else self._baselines.run_once(self._baselines.start_from(*chosen))
            if not run.completed or not self._outputs.differ(run.outputs):
                yield from group

    def choose_others(self, start: Start) -> list[Start]:
        """As ``OtherStates.choose``."""
        return self._others.choose(start)

    def find_others(self) -> Iterator[BaselineRun]:
        """As ``OtherStates.find``, of the state that ``find_baseline`` finds."""
        found = self.find_baseline()
        if found is not None:
            yield from self._others.find(found[0])

    def _find_baseline(self) -> tuple[BaselineRun, bool] | None:
        levels = self._strongest_levels
        found = None if self._has_levels else self._try_with_and_without(levels)
        if found is None or self._others.find_lost(found[0]):
            levels = self._find_levels(lambda trial: self._baselines.run_from(trial).kept) or []
            if found is None or levels != self._strongest_levels:
                found = self._try_with_and_without(levels) or found
        if found is None or self._others.find_lost(found[0]):
            found = self._try_milder(found, levels)
        if found is None or self._others.note_lost(found[0], Variety.ALL):
            return None
        self.left_out.note_strongest(
            {label_region(*self._inputs[number]): why for number, why in sorted(self._milder.items())}
        )
        return found

    def _try_milder(
        self, found: tuple[BaselineRun, bool] | None, levels: Sequence[Perturbation]
    ) -> tuple[BaselineRun, bool] | None:
        """Try milder values of all inputs, then give each input its stronger ones back (``_strengthen``).

        The kernel may not bear together what it bears of each input by itself, or not with this seed. Where
        other signs give NaNs alone, milder values keep the captured signs, and outputs still have numbers.
        """
        order = list(FRESH)
        for milder in order[order.index(Perturbation.FRESH_IN_DISTRIBUTION) :]:
            milder_levels = [max(each, milder, key=order.index) for each in levels]
            run = self._try(milder_levels, with_unreached=False)
            if run is not None and (found is None or not self._others.find_lost(run)):
                return self._strengthen(run, milder_levels, levels), False
        return found

    def _strengthen(
        self, run: BaselineRun, levels: Sequence[Perturbation], strongest: Sequence[Perturbation]
    ) -> BaselineRun:
        """Give one input after the other its strongest values back, if the captured kernel bears them.

        run: the replay from the milder values, ``levels``. No output may lose its numbers.
        """
        levels, slow_trials = list(levels), self._slow_trials
        for number in range(len(self._inputs)):
            if levels[number] is strongest[number]:
                continue
            stronger = [*levels[:number], strongest[number], *levels[number + 1 :]]
            if number >= _MAX_INPUTS or self._slow_trials - slow_trials >= _MAX_SLOW_TRIALS:
                self._milder[number] = NOT_TRIED_ALONE
                continue
            tried = self._try(stronger, with_unreached=False)
            lost = {} if tried is None else self._others.find_lost(tried)
            if tried is None or lost:
                self._milder[number] = next(iter(lost.values()), DOES_NOT_COMPLETE)
            else:
                run, levels = tried, stronger
        return run

    @property
    def _has_levels(self) -> bool:
        """Whether an earlier validation tried inputs one by one: the kernel did not bear them together."""
        trial = Trial(self._inputs[0][0], self._strongest, self._parts_alone[0])
        return self._baselines.find_kept(trial) is not None

    @property
    def _strongest_levels(self) -> list[Perturbation]:
        return [self._strongest] * len(self._inputs)

    def _find_levels(
        self, find_replay: Callable[[Trial], BaselineReplay | None]
    ) -> list[Perturbation] | None:
        """Find the strongest fresh values of each region by itself that the captured kernel bears.

        From these it completes, and no output loses its numbers. The seed is always the same, so that later
        verdicts find these replays. None if one of them is not known.
        """
        order = list(FRESH)
        levels: list[Perturbation] = []
        slow_trials = 0
        for number, (region, _) in enumerate(self._inputs[:_MAX_INPUTS]):
            parts = self._parts_alone[number]
            borne = order[-1]
            for level in order[order.index(self._strongest) : -1]:
                if slow_trials >= _MAX_SLOW_TRIALS:
                    break
                if level is Perturbation.FRESH_NEAR and all(part.element_type for part in parts):
                    continue  # the same as floats alone
                replay = find_replay(Trial(region, level, parts))
                if replay is None:
                    return None
                if replay.outcome is ReplayOutcome.COMPLETED:
                    lost = self._outputs.find_lost_kept(replay)
                    if not lost:
                        borne = level
                        break
                    self._milder[number] = next(iter(lost.values()))
                slow_trials += replay.outcome is ReplayOutcome.TIMED_OUT
            levels.append(borne)
        return levels + [Perturbation.FRESH_FLOATS] * (len(self._inputs) - len(levels))

    def _try_with_and_without(self, levels: Sequence[Perturbation]) -> tuple[BaselineRun, bool] | None:
        """Try a state with memory that no known pointer leads to perturbed, too, then one without."""
        for with_unreached in (True, False) if self._beside is not None else (False,):
            found = self._try(levels, with_unreached=with_unreached)
            if found is not None:
                return found, with_unreached
        return None

    def _try(self, levels: Sequence[Perturbation], *, with_unreached: bool) -> BaselineRun | None:
        start = self._make_start(levels, with_unreached=with_unreached)
        if start.key in self._failed_starts:
            return None
        if all(start.perturbed_states[region.base_address] == region.pre for region, _ in self._inputs):
            return None
        found = self._baselines.run_once(start)
        if found.completed:
            return found
        self._slow_trials += found.kept.outcome is ReplayOutcome.TIMED_OUT
        self._failed_starts.add(start.key)
        return None

    def _make_start(self, levels: Sequence[Perturbation], *, with_unreached: bool) -> Start:
        key = (*levels, with_unreached)
        if key not in self._starts:
            trials = [
                Trial(region, level, parts, seed=self._seed)
                for (region, parts), level in zip(self._inputs, levels, strict=True)
            ]
            self._starts[key] = self._baselines.start_from(
                *trials, *(self._beside or ()) if with_unreached else ()
            )
        return self._starts[key]
