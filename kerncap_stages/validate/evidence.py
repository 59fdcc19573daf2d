"""Compares the outputs of a replay, part by part, with the expected ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kerncap_stages.manifests.validation import Mode
from kerncap_stages.replay.variant import find_runtime_regions
from kerncap_stages.validate.arguments import explain_addresses
from kerncap_stages.validate.compare.bounds import Bounds
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
    WRITES_ELSEWHERE,
    Judgement,
    PartVerdict,
)
from kerncap_stages.validate.perturb.fresh import OTHER_SIGNS
from kerncap_stages.validate.perturb.guessed_types import differ_as_floats, find_type
from kerncap_stages.validate.perturb.own_ranges import cut_at_ranges, differ_as_sums

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.store import Store
    from kerncap_stages.validate.arguments import Pointer, Span
    from kerncap_stages.validate.explorer import Explorer
    from kerncap_stages.validate.perturb.expectation import Expectation
    from kerncap_stages.validate.replays.replayer import Run

# Of floats that have fresh values, relative to the largest element of an output.
ROUNDING = Bounds(ulp=16)


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

    def _list_parts(self, wanted: Expectation) -> Iterator[tuple[Region, Span]]:
        for region, _ in self._find_compared(wanted):
            yield from ((region, part) for part in self._explorer.trials.find_parts(region))

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
        if bounds == ROUNDING:
            bounds = limit_rounding(ROUNDING, part.element_type)
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
        found = compare_states(self._explorer.objects, states, kind, bounds, window)
        if found.stray_bytes:
            # These are stray writes, unless the captured kernel wrote there, too, the value that was there
            # before. Its replay from a perturbed state, the witness, shows that.
            witness = self._explorer.find_witness(region.base_address)
            # An update may leave some elements unchanged, and the variant may round them.
            rounding = part.element_type is not None and not bounds.is_exact
            if witness is not None or rounding:
                known = replace(states, witness=witness)
                found = compare_states(self._explorer.objects, known, kind, bounds, window, rounding=rounding)
        return found

    def _find_small(
        self, region: Region, states: States, part: Span, found: RegionDifference
    ) -> RegionDifference:
        """Return how elements are wrong that the largest one hides; ``found`` if few are."""
        near, share = find_closeness(part.element_type)
        if near.is_exact:
            return found
        close = self._compare_part(region, states, part, near)
        few = max(1.0, share * close.difference.elements)
        return close if close.difference.failing > few else found

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
