"""Compares the outputs of a replay, part by part, with the expected ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kerncap_stages.manifests.validation import Mode
from kerncap_stages.replay.variant import find_runtime_regions
from kerncap_stages.validate.arguments import explain_addresses
from kerncap_stages.validate.compare.bounds import Bounds
from kerncap_stages.validate.compare.free_order import find_free_orders, has_same_elements, join_orders
from kerncap_stages.validate.compare.regions import RegionDifference, States, compare_states, find_states
from kerncap_stages.validate.compare.scaled_bounds import (
    find_closeness,
    find_rounding,
    grow_tolerance,
    limit_rounding,
    scale_bounds,
)
from kerncap_stages.validate.judgement import (
    ALL_WRONG,
    NOT_WRITTEN,
    OUTPUTS_DIFFER,
    ROUNDS_OTHERWISE,
    WRITES_ELSEWHERE,
    Judgement,
    PartVerdict,
    explain_own,
)
from kerncap_stages.validate.perturb.expectation import Expectation, leave_out
from kerncap_stages.validate.perturb.fresh import OTHER_SIGNS
from kerncap_stages.validate.perturb.guessed_types import differ_as_floats, find_type
from kerncap_stages.validate.perturb.own_ranges import cut_at_ranges, differ_as_sums, find_float_ranges
from kerncap_stages.validate.perturb.start import Start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.store import Store
    from kerncap_stages.validate.arguments import Pointer, Span
    from kerncap_stages.validate.explorer import Explorer
    from kerncap_stages.validate.replayer import Run

# How many times the largest difference between replays of the captured kernel a variant may be away from it.
# It is measured with a few replays only, and a variant that is right may add numbers in yet another order.
OWN_DIFFERENCES = 4.0
# Of floats that have fresh values, relative to the largest element of an output.
_ROUNDING = Bounds(ulp=16)


class Comparison:
    """Compares the outputs of runs in the regions of one capture."""

    def __init__(
        self, store: Store, capture: Capture, explorer: Explorer, arguments: Sequence[Pointer]
    ) -> None:
        """``explorer`` cuts regions into parts; ``arguments``: those that are pointers."""
        self._store = store
        self._capture = capture
        self._explorer = explorer
        self._arguments = arguments

    def judge_outputs(self, judgement: Judgement, wanted: Expectation, run: Run) -> Judgement:
        """Add the verdict on each part of each region after a run."""
        if wanted.start.is_fresh:
            judgement = replace(judgement, fresh_starts=judgement.fresh_starts | {wanted.start.key})
        for region, expected in self._find_compared(wanted):
            base = region.base_address
            if base not in run.outputs:
                judgement = judgement.fail(f"the replay gave no state of region {base:#x}")
                continue
            states = find_states(region, expected, run.outputs[base])
            if states.pre == states.expected == states.actual:
                continue
            judgement = replace(
                judgement,
                changes_expected=judgement.changes_expected or states.expected != states.pre,
                changes_made=judgement.changes_made or states.actual != states.pre,
            )
            for part in self._find_parts(wanted, region, states):
                if (base, part.start) not in wanted.nondeterministic:
                    bounds = self._choose_bounds(wanted, region, expected, part)
                    both = self._read(part, expected, states.actual)
                    is_right = wanted.is_reordered(base, part, both, bounds)
                    seen = replace(states, actual=expected) if is_right else states
                    found = self._compare_part(region, seen, part, bounds)
                    if wanted.guesses and found.passed and (base, part.start) not in wanted.own:
                        found = self._find_small(region, seen, part, found)
                    verdict = PartVerdict(region, part, found, wanted.perturbed_base, wanted.start.fresh_name)
                    if not found.difference.passed:
                        verdict = replace(verdict, rounding=self._find_rounding(states, part))
                    judgement = self._add_part(judgement, verdict, states)
                    if not wanted.start.is_perturbed and not found.difference.passed:
                        judgement = judgement.note(*self._explain(states, part))
        return judgement

    def judge_with_own(
        self, judgement: Judgement, wanted: Expectation, run: Run, sample: Callable[[Start], Run | None]
    ) -> tuple[Judgement, Expectation]:
        """As ``judge_outputs``, but outputs may differ by as much as the captured kernel's own do.

        sample: runs the captured kernel several times. Also returns what was expected then.
        """
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
            allowed = replace(allowed, bounds=_ROUNDING, guesses=True)
            compared = self.judge_outputs(judgement, allowed, run)
        if wanted.start.is_perturbed and not compared.passed:
            allowed = self._allow_unsteady(allowed, wanted.bounds, sample)
            compared = self.judge_outputs(judgement, allowed, run)
        if compared.passed:
            own_order = explain_own(allowed, self._list_parts(allowed))
            compared = compared.allow(allowed.own.values()).note(*own_order)
            compared = compared.note(ROUNDS_OTHERWISE) if allowed.guesses else compared
        return compared, allowed

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

        From another state a few runs may agree by chance, or change few places. Where they leave the same
        elements in others from both states, a variant has to leave these, in what both allow.
        """
        start = Start(self._store, self._capture)
        own = sample(start)
        if own is None:
            return wanted
        known = self.allow_own_differences(Expectation(start, own.outputs, bounds), own, exclude=True)
        unsteady = known.nondeterministic | (known.free.keys() - wanted.free.keys())
        joined = replace(wanted, free=join_orders(wanted.free, known.free))
        return leave_out(joined, unsteady, exclude=True)

    def may_be_own(self, wanted: Expectation, run: Run) -> bool:
        """Whether all that differs are floats, by what another order of operations may explain, or places."""
        ranged = self._find_ranges(wanted, [run.outputs]) if wanted.bounds.is_exact else wanted
        return all(
            (wanted.bounds.is_exact and found.is_within(self._find_rounding(states, part)))
            or has_same_elements(part.element_type, *self._read(part, states.expected, states.actual))
            for _, states, part, found in self._find_failing(ranged, run.outputs)
        )

    def _list_parts(self, wanted: Expectation) -> Iterator[tuple[Region, Span]]:
        for region, _ in self._find_compared(wanted):
            yield from ((region, part) for part in self._explorer.trials.find_parts(region))

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

    def _find_failing(
        self, wanted: Expectation, outputs: Mapping[int, MemoryRef]
    ) -> Iterator[tuple[Region, States, Span, RegionDifference]]:
        """Yield the parts of regions in which outputs are not as expected, within the bounds."""
        for region, expected in self._find_compared(wanted):
            actual = outputs.get(region.base_address)
            if actual is None or actual == expected:
                continue
            states = find_states(region, expected, actual)
            for part in self._find_parts(wanted, region, states):
                bounds = self._choose_bounds(wanted, region, expected, part)
                found = self._compare_part(region, states, part, bounds)
                both = self._read(part, expected, actual)
                if not (found.passed or wanted.is_reordered(region.base_address, part, both, bounds)):
                    yield region, states, part, found

    def _find_compared(self, wanted: Expectation) -> Iterator[tuple[Region, MemoryRef]]:
        """Yield the regions to compare, with their pre-states at the start, and their expected outputs."""
        of_runtime = find_runtime_regions(self._capture)
        for region in wanted.start.capture.regions:
            expected = wanted.expected.get(region.base_address)
            if region.pre is not None and expected is not None and region.base_address not in of_runtime:
                yield region, expected

    def _find_parts(self, wanted: Expectation, region: Region, states: States) -> Iterator[Span]:
        """Yield the parts to compare. Where floats are guessed, an integer among them must not differ."""
        captured = self._find_captured(region.base_address).post
        for whole in self._explorer.trials.find_parts(region):
            for part in cut_at_ranges(whole, wanted.varying.get((region.base_address, whole.start), ())):
                kind = part.element_type
                are_alike = differ_as_floats if kind == whole.element_type else differ_as_sums
                if wanted.guesses and captured is not None:
                    kind = find_type(kind, *self._read(part, captured))
                if kind is not None and kind != whole.element_type:
                    outputs = self._read(part, states.expected, states.actual)
                    is_alike = are_alike(kind, *outputs)
                    yield replace(part, element_type=kind if is_alike else whole.element_type)
                else:
                    yield part

    def _read(self, part: Span, *memories: MemoryRef) -> Iterator[npt.NDArray[np.uint8]]:
        """Read a part of each memory: uint8[size of the part]."""
        return (self._store.read_memory(each.digest)[part.start : part.end] for each in memories)

    def _find_captured(self, base: int) -> Region:
        return next(each for each in self._capture.regions if each.base_address == base)

    def _choose_bounds(self, wanted: Expectation, region: Region, expected: MemoryRef, part: Span) -> Bounds:
        """Choose the bounds for a part: with fresh values, relative ones apply to its largest element.

        Fresh values may cancel each other in sums where the captured ones do not, so the largest element that
        the captured dispatch wrote counts, too. An absolute bound grows with the output. Fresh values show
        whether a variant computes the same, not how precisely.
        """
        own = wanted.own.get((region.base_address, part.start))
        bounds = wanted.bounds
        if wanted.start.is_fresh and not bounds.is_exact:
            bounds = self._scale_bounds(wanted, region, expected, part)
        return bounds if own is None else replace(bounds, atol=(bounds.atol or 0.0) + own)

    def _scale_bounds(self, wanted: Expectation, region: Region, expected: MemoryRef, part: Span) -> Bounds:
        bounds = wanted.bounds
        if bounds == _ROUNDING:
            bounds = limit_rounding(_ROUNDING, part.element_type)
            if bounds.is_exact:
                return bounds
        captured = self._find_captured(region.base_address)
        now, first, *others = (
            [*self._read(part, *(state for state in pair if state is not None))]
            for pair in (
                (region.pre, expected),
                (captured.pre, captured.post),
                self._find_unsigned(wanted, region.base_address),
            )
        )
        grown = grow_tolerance(bounds, first, now, part.element_type)
        written = [tuple(pair) for pair in (now, first, *others) if len(pair) == 2]
        return scale_bounds(grown, written, part.element_type)

    def _find_unsigned(self, wanted: Expectation, base: int) -> tuple[MemoryRef | None, MemoryRef | None]:
        """Return a region before and after a run with the captured signs, if they are others now.

        There sums do not cancel each other where those of the captured values do not.
        """
        found = self._explorer.fresh.found if wanted.start.variety in OTHER_SIGNS else None
        if found is None:
            return None, None
        return found.start.pre_states.get(base), found.outputs.get(base)

    def _compare_part(self, region: Region, states: States, part: Span, bounds: Bounds) -> RegionDifference:
        kind, window = part.element_type or "bytes", (part.start, part.end)
        found = compare_states(self._store, states, kind, bounds, window)
        if found.stray_bytes:
            # These are stray writes, unless the captured kernel wrote there, too, the value that was there
            # before. Its replay from a perturbed state, the witness, shows that.
            witness = self._explorer.find_witness(region.base_address)
            # An update may leave some elements unchanged, and the variant may round them.
            rounding = part.element_type is not None and not bounds.is_exact
            if witness is not None or rounding:
                known = replace(states, witness=witness)
                found = compare_states(self._store, known, kind, bounds, window, rounding=rounding)
        return found

    def _find_small(
        self, region: Region, states: States, part: Span, found: RegionDifference
    ) -> RegionDifference:
        """Return how elements are wrong that the largest one hides; ``found`` if few are."""
        near, share = find_closeness(part.element_type)
        if near.is_exact:
            return found
        close = self._compare_part(region, states, part, near)
        return close if close.difference.failing > share * close.difference.elements else found

    def _find_rounding(self, states: States, part: Span) -> float:
        """Return by how much floats may differ if only the order of rounded operations is another.

        The kernel also wrote what the variant changed, even if that value was there before.
        """
        pre, expected, actual = self._read(part, states.pre, states.expected, states.actual)
        written = [(pre, expected), (actual, expected)]
        limit = scale_bounds(find_rounding(part.element_type), written, part.element_type)
        return limit.atol or 0.0

    def _add_part(self, judgement: Judgement, verdict: PartVerdict, states: States) -> Judgement:
        found = verdict.found
        if not (found.written_bytes or found.differing_bytes or found.stray_bytes):
            return judgement
        judgement = replace(judgement, verdicts=(*judgement.verdicts, verdict))
        if judgement.mode is Mode.NUMERIC and verdict.part.element_type is None and found.differing_bytes:
            judgement = judgement.note(
                f"{verdict.name} holds elements of unknown type and was compared byte for byte: "
                "give their type with --dtype"
            )
        if not found.difference.passed:
            is_all = found.difference.failing == found.difference.elements
            before, after = map(bytes, self._read(verdict.part, states.pre, states.actual))
            judgement = judgement.fail(
                NOT_WRITTEN if is_all and before == after else ALL_WRONG if is_all else OUTPUTS_DIFFER
            )
        if found.stray_bytes:
            judgement = judgement.fail(WRITES_ELSEWHERE)
        return judgement

    def _explain(self, states: States, part: Span) -> list[str]:
        window = (part.start, part.end)
        why = explain_addresses(
            self._store, self._capture, self._arguments, states.expected, states.actual, window
        )
        return [] if why is None else [why]
