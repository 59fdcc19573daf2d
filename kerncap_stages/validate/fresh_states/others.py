"""Finds the other states of a seed: few fresh values, other signs, more zeros, other lone numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kerncap_stages.validate.arguments import Window
from kerncap_stages.validate.perturb.fresh import OTHER_SIGNS, Variety
from kerncap_stages.validate.perturb.left_out import DOES_NOT_COMPLETE, LeftOut
from kerncap_stages.validate.perturb.lost_numbers import (
    LEAVES_ALONE,
    OutputJudge,
    count_special,
    has_floats,
    label_region,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.store import Store
    from kerncap_stages.validate.arguments import Span
    from kerncap_stages.validate.lone import LoneStates
    from kerncap_stages.validate.perturb.start import Start
    from kerncap_stages.validate.perturb.states import Trial
    from kerncap_stages.validate.replays.baselines import BaselineRun, Baselines


class OtherStates:
    """Chooses states other than that in which all values are fresh, and replays the kernel from them."""

    def __init__(
        self,
        baselines: Baselines,
        inputs: Sequence[tuple[Region, tuple[Span, ...]]],
        outputs: OutputJudge,
        left_out: LeftOut,
        begin: Callable[[Sequence[Start]], None],
        store: Store,
        *,
        is_exact: bool,
        lone: LoneStates | None,
    ) -> None:
        """``inputs``, ``begin``, ``store``, ``is_exact``, ``lone``: as for ``FreshInputs``.

        outputs: judges whether outputs tell something. left_out: gets what is not tried.
        """
        self._baselines = baselines
        self._inputs = inputs
        self._outputs = outputs
        self._left_out = left_out
        self._begin = begin
        self._store = store
        self._is_exact = is_exact
        self._lone = lone
        self._choices: dict[object, list[Start]] = {}
        self._runs: dict[object, BaselineRun] = {}
        self._calmer: dict[object, Start] = {}  # what is tried instead of such a state, by its key
        self._shows: dict[object, bool] = {}  # whether a variant can be judged from a state, by its key

    def choose(self, start: Start) -> list[Start]:
        """Return the other states that belong to a start in which all inputs have fresh values.

        In the first two only a few elements have fresh values, and in the second other elements than in the
        first: a variant that recognises the captured inputs by some of their words takes these states for the
        captured one. States that are the same count once.
        """
        if start.key not in self._choices:
            states = start.perturbed_states
            captured = tuple(trial.region.pre for trial in start.trials if trial.is_fresh)
            found: dict[tuple[object, ...], Start | None] = {captured: None, _name(start): None}
            choices = [
                [
                    replace(trial, variety=variety, all_fresh=states[trial.region.base_address])
                    for trial in start.trials
                    if trial.is_fresh
                ]
                for variety in Variety
                if variety not in (Variety.ALL, Variety.LONE)
            ]
            for other in self._baselines.start_freshly(choices):
                found.setdefault(_name(other), other)
            self._choices[start.key] = [other for other in found.values() if other is not None]
        # A variant is not run from those that the captured kernel is known not to bear.
        chosen = [self._calmer.get(other.key, other) for other in self._choices[start.key]]
        chosen += self._lone.get_starts(self._outputs.find_lost_kept) if self._lone is not None else []
        return [each for each in chosen if each.key not in self._runs or self._runs[each.key].completed]

    def find(self, usual: BaselineRun) -> Iterator[BaselineRun]:
        """Yield replays of the captured kernel from the states of ``choose`` that it bears.

        usual: the replay from the state in which all inputs have fresh values.
        """
        if usual.start.key not in self._choices:
            self._begin(self.choose(usual.start))
        if self._lone is not None:
            self._lone.find_starts(self._begin, self._outputs.find_lost_kept)
            self._left_out.note_lone(self._lone.left_out)
        for start in self.choose(usual.start):
            run = self._run_calmly(start)
            if not run.completed:
                self._left_out.note(start.variety, DOES_NOT_COMPLETE)
            elif self._shows_something(run, usual):
                yield run

    def _run_calmly(self, start: Start) -> BaselineRun:
        """Replay from another state; where that tells little, from one in which less is fresh."""
        run = self._run(start)
        if start.key not in self._calmer:
            self._calmer[start.key] = start
            for trials in self._choose_calmer(start, run):
                calmer = self._baselines.start_from(*trials)
                other = self._run(calmer)
                if other.completed and not self.find_lost(other):
                    self._calmer[start.key] = calmer
                    break
        return self._run(self._calmer[start.key])

    def _choose_calmer(self, start: Start, run: BaselineRun) -> Iterator[list[Trial]]:
        """Yield the perturbations of states to try instead, if outputs tell little from ``start``.

        First, outputs that the kernel left unchanged keep their captured values: a largest result may be
        smaller than the fresh value in its place. Then, of the state with other signs, regions without floats
        keep theirs: a flag or a count among their integers may decide whether the kernel does anything.
        """
        lost = self.find_lost(run) if run.completed else {}
        if run.completed and not lost:
            return
        alone = [name for name, why in lost.items() if why == LEAVES_ALONE]
        choices = [[trial for trial in start.trials if label_region(trial.region, trial.parts) not in alone]]
        if start.variety is Variety.SIGNS:
            choices.append(
                [
                    trial
                    for trial in start.trials
                    if not trial.is_fresh or has_floats(self._store, trial.region, trial.parts)
                ]
            )
        for trials in choices:
            if len(trials) < len(start.trials) and any(trial.is_fresh for trial in trials):
                yield trials

    def _run(self, start: Start) -> BaselineRun:
        if start.key not in self._runs:
            self._runs[start.key] = self._baselines.run_once(start)
        return self._runs[start.key]

    def _shows_something(self, run: BaselineRun, usual: BaselineRun) -> bool:
        """Whether a variant can be judged from a state. If it cannot, or not for all outputs, note why."""
        if run.start.key not in self._shows:
            self._shows[run.start.key] = self._find_whether_it_shows(run, usual)
        return self._shows[run.start.key]

    def _find_whether_it_shows(self, run: BaselineRun, usual: BaselineRun) -> bool:
        variety = run.start.variety or Variety.ALL
        if variety in (*OTHER_SIGNS, Variety.LONE) and self._has_more_special(run, usual):
            self._left_out.note(variety, "gives more NaNs or infinities")
            return False
        return not self.note_lost(run, variety)

    def note_lost(self, run: BaselineRun, variety: Variety) -> bool:
        """Note which outputs of a replay tell little; whether all do."""
        lost = self.find_lost(run)
        if not lost:
            return False
        tells_nothing = run.changed.keys() <= {
            region.base_address for region, parts in self._inputs if label_region(region, parts) in lost
        }
        self._left_out.note_outputs(variety, lost, tells_nothing=tells_nothing)
        return tells_nothing

    def find_lost(self, run: BaselineRun) -> dict[str, str]:
        """Find the outputs of a replay that tell little: why, by their names."""
        return self._outputs.find_lost(run.start.pre_states, run.changed)

    def _has_more_special(self, run: BaselineRun, usual: BaselineRun) -> bool:
        """Whether outputs have more NaNs or infinities than with the captured signs.

        Rounding may decide which of them there are, and with bounds a variant may round.
        """
        if self._is_exact:
            return False
        for region, parts in self._inputs:
            base, window = region.base_address, Window(region.size_bytes, tuple(parts))
            if base in run.changed:
                now, before = (
                    count_special(self._store, each.outputs[base], window) for each in (run, usual)
                )
                if now > before:
                    return True
        return False


def _name(start: Start) -> tuple[object, ...]:
    """Name the contents of the regions that get fresh values."""
    states = start.perturbed_states
    return tuple(states[trial.region.base_address] for trial in start.trials if trial.is_fresh)
