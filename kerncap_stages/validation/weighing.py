"""What replays left compared with what they should have left, part by part, into a verdict that grows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kerncap_stages.manifests.validation import Mode
from kerncap_stages.replaying.variant import runtime_regions
from kerncap_stages.validation.addresses import explain_addresses
from kerncap_stages.validation.judgement import Judgement, PartVerdict, part_name, wrong_output
from kerncap_stages.validation.perturb import LITTLE, Change
from kerncap_stages.validation.states import RegionDifference, States, compare_states

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kerncap_stages.bounds import Bounds
    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.store import Store
    from kerncap_stages.validation.arguments import Pointer, Span
    from kerncap_stages.validation.changed_states import ChangedStates
    from kerncap_stages.validation.runs import Baselines, Run


@dataclass(frozen=True)
class Expectation:
    """What a run from a state should leave, by region, and how near.

    ``changed_base``: of the region that was changed beforehand; none from the captured state.
    ``unsteady``: parts that are not compared, each as its region's base address and its start.
    """

    start: Capture
    expected: Mapping[int, MemoryRef]
    bounds: Bounds
    changed_base: int | None = None
    unsteady: frozenset[tuple[int, int]] = frozenset()


class Weighing:
    """Compares states of one capture's regions."""

    def __init__(
        self,
        store: Store,
        capture: Capture,
        judgement: Judgement,
        changed: ChangedStates,
        baselines: Baselines,
        arguments: Sequence[Pointer],
    ) -> None:
        """``changed`` knows the parts of regions; ``arguments``: those that are pointers."""
        self._store = store
        self._capture = capture
        self._judgement = judgement
        self._changed = changed
        self._baselines = baselines
        self._arguments = arguments
        self._witnesses: dict[int, tuple[MemoryRef, MemoryRef] | None] = {}

    def compare(self, wanted: Expectation, run: Run) -> None:
        """Weigh what a run left."""
        of_runtime, expected = runtime_regions(self._capture), wanted.expected
        for region in wanted.start.regions:
            base = region.base_address
            if region.pre is None or base not in expected or base in of_runtime:
                continue
            if base not in run.outputs:
                self._judgement.fail(f"the replay gave no state of region {base:#x}")
                continue
            states = States(region.pre, expected[base], run.outputs[base], region.size_bytes)
            if states.pre == states.expected == states.actual:
                continue
            self._judgement.changes_expected |= states.expected != states.pre
            self._judgement.changes_made |= states.actual != states.pre
            for part in self._changed.parts(region):
                if (base, part.start) in wanted.unsteady:
                    continue
                found = self._compare_part(region, states, part, wanted.bounds)
                if found.written_bytes or found.differing_bytes or found.stray_bytes:
                    self._weigh(PartVerdict(region, part, found, wanted.changed_base))
                if wanted.changed_base is None and not found.difference.passed:
                    self._explain(states, part)

    def steady(self, wanted: Expectation, baseline: Run) -> Expectation:
        """The same but for the parts in which runs of the captured kernel are not as near either."""
        unsteady: set[tuple[int, int]] = set()
        for region in wanted.start.regions:
            expected = wanted.expected.get(region.base_address)
            for outputs in (baseline.outputs, *baseline.differing):
                actual = outputs.get(region.base_address)
                if region.pre is None or expected is None or actual is None or actual == expected:
                    continue
                states = States(region.pre, expected, actual, region.size_bytes)
                unsteady |= {
                    (region.base_address, part.start)
                    for part in self._changed.parts(region)
                    if not self._compare_part(region, states, part, wanted.bounds).passed
                }
        return replace(wanted, unsteady=frozenset(unsteady))

    def _compare_part(self, region: Region, states: States, part: Span, bounds: Bounds) -> RegionDifference:
        kind, window = part.element_type or "bytes", (part.start, part.end)
        found = compare_states(self._store, states, kind, bounds, window)
        if found.stray_bytes:
            # Astray, or in an output that the captured kernel wrote with what was there before?
            witness = self._witness(region)
            # Where the update is the identity for some elements, a variant may leave them a rounding apart.
            rounding = part.element_type is not None and not bounds.exact
            if witness is not None or rounding:
                known = replace(states, witness=witness)
                found = compare_states(self._store, known, kind, bounds, window, rounding=rounding)
        return found

    def _witness(self, region: Region) -> tuple[MemoryRef, MemoryRef] | None:
        base = region.base_address
        if base not in self._witnesses:
            self._witnesses[base] = None
            original = next(each for each in self._capture.regions if each.base_address == base)
            little = [Change.NUDGE_GENTLY, *(of_regions for of_regions, _ in LITTLE)]
            changes = [change for change in self._changed.changes(original) if change in little]
            for change in changes if not original.read_only else ():
                state, run = self._baselines.run_changed(original, change, self._changed.parts(original))
                if run.completed:
                    self._witnesses[base] = (state.pre, run.outputs[base])
                    break
        return self._witnesses[base]

    def _weigh(self, verdict: PartVerdict) -> None:
        judgement, found = self._judgement, verdict.found
        judgement.verdicts.append(verdict)
        if judgement.mode is Mode.NUMERIC and verdict.part.element_type is None and found.differing_bytes:
            judgement.note(
                f"{part_name(verdict)} holds elements of unknown type and was compared byte for byte: "
                "--dtype says what they are"
            )
        if not found.difference.passed:
            judgement.fail(wrong_output(found))
        if found.stray_bytes:
            judgement.fail("the variant writes where the captured kernel does not")

    def _explain(self, states: States, part: Span) -> None:
        window = (part.start, part.end)
        why = explain_addresses(
            self._store, self._capture, self._arguments, states.expected, states.actual, window
        )
        if why is not None:
            self._judgement.note(why)
