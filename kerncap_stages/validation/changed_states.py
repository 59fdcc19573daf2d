"""Pre-states in which one region is changed, and what the captured kernel makes of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from kerncap_stages.bounds import Bounds
from kerncap_stages.manifests.memory import MemoryKind
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.validation.arguments import Span, spans
from kerncap_stages.validation.perturb import (
    EVERYWHERE,
    LITTLE,
    MOST_BYTES,
    Altered,
    Change,
    nudge_unit,
    variable_ranges,
)
from kerncap_stages.validation.reach import Reach, reach
from kerncap_stages.validation.states import States, compare_states

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.store import Store
    from kerncap_stages.validation.arguments import Pointer
    from kerncap_stages.validation.runs import Baselines, Run, Together
    from kerncap_stages.validation.settings import Settings

# A program may hold tens of GiB that a kernel has nothing to do with.
MOST_UNREACHED_BYTES = 256 << 20


class ChangedStates:
    """Which regions are changed, how, and the baseline's replays from there."""

    def __init__(
        self,
        store: Store,
        capture: Capture,
        settings: Settings,
        baselines: Baselines,
        arguments: Sequence[Pointer],
    ) -> None:
        """``arguments``: those that are pointers."""
        self._store = store
        self._capture = capture
        self._settings = settings
        self._baselines = baselines
        self._arguments = tuple(arguments)

    @cached_property
    def reach(self) -> Reach:
        """Which regions the kernel writes, and which others something leads to, or nothing."""
        return reach(self._store, self._capture, self._arguments)

    @property
    def unreached(self) -> tuple[list[Region], list[Region]]:
        """What nothing leads to: regions that are together small enough to be changed, and the rest."""
        ends = accumulate(region.size_bytes for region in self.reach.unreached)
        count = sum(end <= MOST_UNREACHED_BYTES for end in ends)
        return self.reach.unreached[:count], self.reach.unreached[count:]

    def parts(self, region: Region) -> tuple[Span, ...]:
        """The parts of a region, with the type of their elements."""
        if self._settings.default_type is not None:
            labels = [part.label for part in spans(region, self._arguments) if part.label]
            return (Span(0, region.size_bytes, self._settings.default_type, ", ".join(labels)),)
        return spans(region, self._arguments)

    def changes(self, region: Region) -> Iterator[Change]:
        """The ways to change a region, the farthest first."""
        # Instructions lie beside a code object's variables.
        if region.kind is MemoryKind.CODE_OBJECT:
            if variable_ranges(self._store, self._capture, region):
                yield from (of_variables for _, of_variables in LITTLE)
        elif region.size_bytes <= MOST_BYTES:
            if not self._settings.bounds.exact:
                yield Change.POISON
            for of_regions, _ in LITTLE:
                yield of_regions
                if of_regions is Change.NUDGE and self._has_sizes(region):
                    yield Change.NUDGE_GENTLY
        else:
            yield Change.NUDGE_SAMPLES
        if region.written:
            yield Change.NUDGE_WRITTEN

    def _has_sizes(self, region: Region) -> bool:
        """Whether a change that keeps the size of numbers is another one; with bounds all changes do."""
        exact, gentle = (
            [nudge_unit(part, Change.NUDGE, gently=gently) for part in self.parts(region)]
            for gently in (False, True)
        )
        return self._settings.bounds.exact and exact != gentle

    def baseline(self, region: Region, golden: Mapping[int, MemoryRef]) -> tuple[Altered | None, Run | None]:
        """The baseline from a state where a region is changed, as much of it as the kernel bears.

        From the first from which it writes the region, if there is one.
        """
        parts = self.parts(region)
        far = untouched = None
        for change in self.changes(region):
            state, run = self._baselines.run_changed(region, change, parts)
            if not run.completed:
                continue
            if run.outputs[region.base_address] == state.pre:
                # What a kernel clamps may be far off in the direction that it lets pass.
                if change is Change.POISON:
                    continue
                untouched = untouched or (state, run)
                if not region.written:
                    break
            elif change is not Change.POISON or self._is_pure(region, state, run, golden):
                return state, run
            else:
                far = state, run
        return far or untouched or (None, None)

    def together(self, regions: Sequence[Region]) -> Together | None:
        """The baseline from a state where all of these are changed a little, everywhere if it bears that.

        None where they are too large, or the kernel does not run on that.
        """
        if sum(region.size_bytes for region in regions) > MOST_BYTES:
            return None
        for alike in LITTLE:
            changes = [
                (region, change, self.parts(region))
                for region in regions
                for change in self.changes(region)
                if change in alike
            ]
            if len(changes) < len(regions):
                return None
            found = self._baselines.changed_together(changes)
            if found.replay.outcome is ReplayOutcome.COMPLETED:
                return replace(found, everywhere=EVERYWHERE.issuperset(alike))
        return None

    def _is_pure(self, region: Region, state: Altered, run: Run, golden: Mapping[int, MemoryRef]) -> bool:
        """Whether what the kernel writes there does not depend on what was there: golden values hold."""
        base = region.base_address
        states = States(state.pre, run.outputs[base], golden.get(base, run.outputs[base]), region.size_bytes)
        found = compare_states(self._store, states, "bytes", Bounds())
        others = (run.outputs.get(each) == post for each, post in golden.items() if each != base)
        return found.differing_bytes == 0 and all(others)
