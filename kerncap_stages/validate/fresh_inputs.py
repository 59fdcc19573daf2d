"""Finds states in which a kernel's inputs have fresh values, and from which the captured kernel completes."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.validate.perturb.states import FRESH, Perturbation, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.validate.arguments import Span
    from kerncap_stages.validate.baselines import BaselineRun, Baselines
    from kerncap_stages.validate.perturb.start import Start

# So many inputs are tried by themselves; of further ones only floats change.
_MAX_INPUTS = 16
# After this many trials that did not end in time, only floats change.
_MAX_SLOW_TRIALS = 2


class FreshInputs:
    """Gives each input the strongest fresh values that the captured kernel bears."""

    def __init__(
        self,
        baselines: Baselines,
        inputs: Sequence[tuple[Region, tuple[Span, ...]]],
        beside: Sequence[Trial] | None,
        *,
        is_exact: bool,
        seed: int,
    ) -> None:
        """``inputs``: with the parts whose elements have one type.

        beside: perturbations of memory that no known pointer leads to, for the same state; None: none.
        is_exact: whether outputs must be the same, byte for byte.
        """
        self._baselines = baselines
        self._inputs = inputs
        self._beside = beside
        self._seed = seed
        # With bounds values stay in distribution, so that rounding errors stay as the bounds assume.
        self._strongest = Perturbation.FRESH_ANY if is_exact else Perturbation.FRESH_IN_DISTRIBUTION
        self._starts: dict[tuple[object, ...], Start] = {}
        self._failed_starts: set[object] = set()
        self._found: tuple[BaselineRun, bool] | None = None
        self._was_sought = False

    @property
    def found_start(self) -> Start | None:
        """The state that ``find_baseline`` found; None if it was not called, or found none."""
        return None if self._found is None else self._found[0].start

    def guess_start(self) -> Start | None:
        """Return the state that is tried first; None if that depends on replays that were not made yet.

        None, too, if ``find_baseline`` has found no state: an evaluation asks for each variant.
        """
        if self._was_sought and self._found is None:
            return None
        levels = self._strongest_levels
        if self._has_levels:
            found = self._find_levels(self._find_kept_outcome)
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

    def choose_few(self, start: Start) -> Start:
        """Return the state in which only a few elements of the inputs have the fresh values of a start.

        A variant that recognises the captured inputs by some of their words takes it for the captured state.
        """
        key = ("few", start.key)
        if key not in self._starts:
            trials = (replace(trial, few=True) for trial in start.trials if trial.is_fresh)
            self._starts[key] = self._baselines.start_from(*trials)
        return self._starts[key]

    @cached_property
    def few_baseline(self) -> BaselineRun | None:
        """A replay of the captured kernel from ``choose_few``; None if it does not complete from there."""
        found = self.find_baseline()
        run = None if found is None else self._baselines.run_once(self.choose_few(found[0].start))
        return run if run is not None and run.completed else None

    def _find_baseline(self) -> tuple[BaselineRun, bool] | None:
        if not self._has_levels:
            found = self._try_with_and_without(self._strongest_levels)
            if found is not None:
                return found
        levels = self._find_levels(lambda trial: self._baselines.run_from(trial).kept.outcome) or []
        found = self._try_with_and_without(levels)
        if found is not None:
            return found
        # What it bears one by one, with one seed, it may not bear together, with another.
        order = list(FRESH)
        for milder in (Perturbation.FRESH_IN_DISTRIBUTION, Perturbation.FRESH_FLOATS):
            run = self._try([max(each, milder, key=order.index) for each in levels], with_unreached=False)
            if run is not None:
                return run, False
        return None

    @property
    def _has_levels(self) -> bool:
        """Whether an earlier validation tried inputs one by one: the kernel did not bear them together."""
        region, parts = self._inputs[0]
        return self._baselines.find_kept(Trial(region, self._strongest, parts)) is not None

    @property
    def _strongest_levels(self) -> list[Perturbation]:
        return [self._strongest] * len(self._inputs)

    def _find_kept_outcome(self, trial: Trial) -> ReplayOutcome | None:
        kept = self._baselines.find_kept(trial)
        return None if kept is None else kept.outcome

    def _find_levels(
        self, find_outcome: Callable[[Trial], ReplayOutcome | None]
    ) -> list[Perturbation] | None:
        """Find the strongest fresh values of each region by itself from which the captured kernel completes.

        The seed is always the same, so that later verdicts find these replays. None if one of them is not
        known.
        """
        order = list(FRESH)
        levels: list[Perturbation] = []
        slow_trials = 0
        for region, parts in self._inputs[:_MAX_INPUTS]:
            borne = order[-1]
            for level in order[order.index(self._strongest) : -1]:
                if slow_trials >= _MAX_SLOW_TRIALS:
                    break
                outcome = find_outcome(Trial(region, level, parts))
                if outcome is None:
                    return None
                if outcome is ReplayOutcome.COMPLETED:
                    borne = level
                    break
                slow_trials += outcome is ReplayOutcome.TIMED_OUT
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
        if all(start.pre_states[region.base_address] == region.pre for region, _ in self._inputs):
            return None
        found = self._baselines.run_once(start)
        if found.completed:
            return found
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
