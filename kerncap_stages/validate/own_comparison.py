"""Compares outputs with room for what runs of the captured kernel itself differ by."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from kerncap_stages.digest import MemoryRef
from kerncap_stages.validate.compare.free_order import find_free_orders, has_same_elements, join_orders
from kerncap_stages.validate.compare.special import take_special
from kerncap_stages.validate.evidence import ROUNDING, Comparison
from kerncap_stages.validate.judgement import ROUNDS_OTHERWISE, SPECIAL_ALIKE, Judgement, explain_own
from kerncap_stages.validate.perturb.expectation import Expectation, leave_out
from kerncap_stages.validate.perturb.guessed_types import find_type
from kerncap_stages.validate.perturb.own_ranges import find_float_ranges
from kerncap_stages.validate.perturb.start import Start

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kerncap_stages.validate.arguments import Span
    from kerncap_stages.validate.compare.bounds import Bounds
    from kerncap_stages.validate.compare.free_order import FreeOrder
    from kerncap_stages.validate.replays.replayer import Run

# How many times the largest difference between replays of the captured kernel a variant may be away from it.
# It is measured with a few replays only, and a variant that is right may add numbers in yet another order.
OWN_DIFFERENCES = 4.0


class Samples(Protocol):
    """Runs of the captured kernel, several from one state."""

    def sample(self, start: Start) -> Run | None:
        """Return a run with further ones that differ from it; None if it fails."""

    def sample_apart(self, start: Start) -> bool:
        """Sample again in a process of its own, if one that is kept had it; whether there is more now."""


class OwnComparison(Comparison):
    """Compares outputs, which may differ by as much as those of the captured kernel's own runs do."""

    def judge_with_own(
        self, judgement: Judgement, wanted: Expectation, run: Run, own: Samples
    ) -> tuple[Judgement, Expectation]:
        """As ``judge_outputs``, but outputs may differ by as much as those of the captured kernel's runs do.

        Also returns the expectation with what was allowed.
        """
        compared, allowed = self._judge_with_samples(judgement, wanted, run, own.sample)
        if judgement.passed and not compared.passed and own.sample_apart(wanted.start):
            compared, allowed = self._judge_with_samples(judgement, wanted, run, own.sample)
        return compared, allowed

    def _judge_with_samples(
        self, judgement: Judgement, wanted: Expectation, run: Run, sample: Callable[[Start], Run | None]
    ) -> tuple[Judgement, Expectation]:
        compared = self.judge_outputs(judgement, wanted, run)
        if compared.passed or not judgement.passed:
            return compared, wanted
        if not (wanted.start.is_perturbed or self.may_be_own(wanted, run)):
            return compared, wanted
        allowed, own = wanted, sample(wanted.start)
        if own is not None:
            # With other indices several threads may write to one element, or find a table full, in any order.
            allowed = self.allow_own_differences(wanted, own, exclude=wanted.start.is_perturbed)
            compared = self.judge_outputs(judgement, allowed, run)
        if wanted.start.is_fresh and wanted.bounds.is_exact and not compared.passed:
            # A variant may be exact for the captured values, as small integers are, and round others.
            allowed = replace(allowed, bounds=ROUNDING, guesses=True)
            compared = self.judge_outputs(judgement, allowed, run)
        if wanted.start.is_perturbed and not compared.passed:
            allowed = self._allow_unsteady(allowed, wanted.bounds, sample)
            compared = self.judge_outputs(judgement, allowed, run)
        if wanted.start.is_fresh and not compared.passed:
            alike = self._take_special(allowed, run)
            found = compared if alike is run else self.judge_outputs(judgement, allowed, alike)
            compared = found.note(SPECIAL_ALIKE) if found.passed else compared
        if compared.passed:
            own_order = explain_own(allowed, self._list_parts(allowed))
            compared = compared.allow(allowed.own.values()).note(*own_order)
            compared = compared.note(ROUNDS_OTHERWISE) if allowed.guesses else compared
        return compared, allowed

    def _take_special(self, wanted: Expectation, run: Run) -> Run:
        """Return a run with the expected elements where NaN stands for NaN or infinity; the same if nowhere.

        Which one comes out of a division by zero may depend on the order of operations. If the captured
        launch gave one, they count as they are.
        """
        outputs = dict(run.outputs)
        with self._store.begin_transaction() as transaction:
            for region, expected in self._find_compared(wanted):
                base, actual = region.base_address, outputs.get(region.base_address)
                captured = self._find_captured(base).post
                if actual is None or actual == expected or captured is None:
                    continue
                content = self._store.read_memory(actual.digest)
                is_changed = False
                for part in self._explorer.trials.find_parts(region):
                    then, now = self._read(part, captured, expected)
                    kind = find_type(part.element_type, then)
                    is_changed |= take_special(content[part.start : part.end], now, then, kind)
                if is_changed:
                    outputs[base] = MemoryRef.to(transaction.put_memory(content))
            transaction.publish_objects()
        return run if outputs == run.outputs else replace(run, outputs=outputs)

    def judge_further(
        self, judgement: Judgement, wanted: Expectation, run: Run, own: Samples
    ) -> tuple[Judgement, Expectation]:
        """As ``judge_with_own``, of a further run from a state; ``wanted``: with what was allowed before.

        From the captured state no more is allowed. From others, a few runs of the captured kernel may be the
        same by chance, so more may be allowed.
        """
        if wanted.start.is_perturbed:
            return self.judge_with_own(judgement, wanted, run, own)
        return self.judge_outputs(judgement, wanted, run), wanted

    def allow_own_differences(self, wanted: Expectation, baseline: Run, *, exclude: bool) -> Expectation:
        """Allow for what replays of the captured kernel itself differ by, beyond the bounds.

        Without bounds, floats may then differ by a multiple of that, if they differ as sums of another order
        do. Of parts of unknown type that holds for the ranges in which they differ. ``exclude``: other parts
        that differ are not compared.
        """
        runs = (baseline.outputs, *baseline.differing)
        free = find_free_orders(self._list_parts(wanted), wanted.expected, runs, self._read, alone=exclude)
        wanted = replace(wanted, free=free)
        if wanted.bounds.is_exact:
            wanted = self._find_ranges(replace(wanted, own={}), runs)  # both are of the same runs
        own, failing = dict(wanted.own), set[tuple[int, int]]()
        for outputs in runs:
            for region, states, part, found in self._find_failing(wanted, outputs):
                where = (region.base_address, part.start)
                limit = self._find_rounding(states, part) if wanted.bounds.is_exact else 0.0
                if found.is_within(limit):
                    allowed = min(limit, OWN_DIFFERENCES * found.difference.max_absolute)
                    own[where] = max(own.get(where, 0.0), allowed)
                else:
                    failing.add(where)
        return leave_out(replace(wanted, own=own), failing, exclude=exclude)

    def _allow_unsteady(
        self, wanted: Expectation, bounds: Bounds, sample: Callable[[Start], Run | None]
    ) -> Expectation:
        """Leave out what the captured kernel's runs from the captured state differ in, beyond the bounds.

        From another state a few runs may be the same by chance, or show few of the places that may change.
        Where the order is free from both states, a variant has to leave the same elements in the ranges of
        both. That does not hold if the elements depend on what was there before, as in a table whose places
        count on from it: such a part is left out.
        """
        start = Start(self._store, self._capture)
        own = sample(start)
        if own is None:
            return wanted
        known = self.allow_own_differences(Expectation(start, own.outputs, bounds), own, exclude=True)
        unsteady = known.nondeterministic | (known.free.keys() - wanted.free.keys())
        both = wanted.free.keys() & known.free.keys()
        joined = replace(wanted, free=join_orders(wanted.free, known.free))
        for where in both:
            # Behind a list that is shorter than the captured one lies what was there before.
            here = joined.free[where].within(wanted.free[where])
            unsteady |= {where} if self._shows_before(wanted, where, here, sample) else set()
        return leave_out(joined, unsteady, exclude=True)

    def _shows_before(
        self,
        wanted: Expectation,
        where: tuple[int, int],
        free: FreeOrder,
        sample: Callable[[Start], Run | None],
    ) -> bool:
        """Whether an output of free order has other elements if it held the captured values before."""
        trials = [trial for trial in wanted.start.trials if trial.region.base_address != where[0]]
        if len(trials) == len(wanted.start.trials):
            return False
        run = sample(Start(self._store, self._capture, *trials))
        if run is None:
            return True
        states = wanted.expected[where[0]], run.outputs[where[0]]
        listed = self._list_parts(wanted)
        part = next(part for region, part in listed if (region.base_address, part.start) == where)
        return not free.has_same(*self._read(part, *states))

    def may_be_own(self, wanted: Expectation, run: Run) -> bool:
        """Whether all that differs are floats, by what another order of operations may explain, or places."""
        ranged = self._find_ranges(wanted, [run.outputs]) if wanted.bounds.is_exact else wanted
        return all(
            (wanted.bounds.is_exact and found.is_within(self._find_rounding(states, part)))
            or has_same_elements(part.element_type, *self._read(part, states.expected, states.actual))
            for _, states, part, found in self._find_failing(ranged, run.outputs)
        )

    def _find_ranges(self, wanted: Expectation, runs: Sequence[Mapping[int, MemoryRef]]) -> Expectation:
        """Return what is wanted with the ranges in which runs differ as floats, in parts of unknown type."""
        varying: dict[tuple[int, int], tuple[Span, ...]] = {}
        for region, expected in self._find_compared(wanted):
            base = region.base_address
            others = {each[base] for each in runs if each.get(base, expected) != expected}
            for part in self._explorer.trials.find_parts(region) if others else ():
                is_free = (base, part.start) in wanted.free
                if part.element_type is None and region.pre is not None and not is_free:
                    before, after, *actuals = self._read(part, region.pre, expected, *others)
                    varying[base, part.start] = find_float_ranges(part, before, after, actuals)
        return replace(wanted, varying={where: ranges for where, ranges in varying.items() if ranges})
