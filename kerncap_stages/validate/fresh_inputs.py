"""Finds states in which a kernel's inputs have fresh values, and from which the captured kernel completes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.validate.perturb.states import FRESH, Perturbation, Trial

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        self._slow_trials = 0

    def guess_start(self) -> Start | None:
        """Return the state that is tried first; None if earlier validations showed that it is not borne."""
        if self._has_levels:
            return None
        return self._make_start(
            [self._strongest] * len(self._inputs), with_unreached=self._beside is not None
        )

    def find_baseline(self) -> tuple[BaselineRun, bool] | None:
        """Replay the captured kernel from a state in which the inputs have fresh values.

        Second: whether memory that no known pointer leads to is perturbed in that state, too. None if the
        kernel completes from no such state.
        """
        if not self._has_levels:
            found = self._try_with_and_without([self._strongest] * len(self._inputs))
            if found is not None:
                return found
        levels = [self._find_level(*each) for each in self._inputs[:_MAX_INPUTS]]
        levels += [Perturbation.FRESH_FLOATS] * (len(self._inputs) - len(levels))
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

    def _find_level(self, region: Region, parts: tuple[Span, ...]) -> Perturbation:
        """Find the strongest fresh values of one region from which the captured kernel completes.

        The seed is always the same, so that later verdicts find these replays.
        """
        order = list(FRESH)
        for level in order[order.index(self._strongest) : -1]:
            if self._slow_trials >= _MAX_SLOW_TRIALS:
                break
            found = self._baselines.run_from(Trial(region, level, parts))
            if found.completed:
                return level
            self._slow_trials += found.kept.outcome is ReplayOutcome.TIMED_OUT
        return order[-1]

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
