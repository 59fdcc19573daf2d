"""Chooses the regions to perturb and how, and replays the captured kernel from the perturbed states."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from kerncap_stages.manifests.memory import MemoryKind
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.replay.variant import find_runtime_regions
from kerncap_stages.store.chunks import RecentObjects
from kerncap_stages.validate.compare.bounds import Bounds
from kerncap_stages.validate.compare.regions import States, compare_states
from kerncap_stages.validate.fresh_states import FreshInputs, InputChoice, choose_inputs
from kerncap_stages.validate.lone import LoneStates
from kerncap_stages.validate.perturb.reach import ReachedMemory, find_reach, split_at
from kerncap_stages.validate.perturb.start import MAX_CHANGED_BYTES, Start, can_put_back
from kerncap_stages.validate.perturb.states import EVERYWHERE, LIGHT_PAIRS, MAX_BYTES, Perturbation
from kerncap_stages.validate.perturb.trials import Trials
from kerncap_stages.validate.replays.limits import MAX_BYTES_AT_ONCE, MAX_BYTES_KEPT
from kerncap_stages.validate.variables import (
    cut_variable,
    find_input_variables,
    is_in_large_memory,
    name_variable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.manifests.source import Source
    from kerncap_stages.replay.runner import Repeats
    from kerncap_stages.store import Store
    from kerncap_stages.validate.arguments import Pointer, Span
    from kerncap_stages.validate.replays.baselines import BaselineRun, Baselines
    from kerncap_stages.validate.replays.speculation import Speculation
    from kerncap_stages.validate.request import JudgeSettings

# This many regions are perturbed one by one; further ones together.
MAX_REGIONS = 16
# A program may have tens of GiB that the kernel does not use.
MAX_UNREACHED_BYTES = 256 << 20
# Perturbations that show which bytes a kernel writes even if it writes the value that was there before.
_WITNESSES = (Perturbation.LIGHT_MAGNITUDE, *(of_regions for of_regions, _ in LIGHT_PAIRS))


@dataclass(frozen=True)
class Limits:
    """How many bytes are perturbed at most. Tests use lower limits."""

    region_bytes: int = MAX_BYTES
    unreached_bytes: int = MAX_UNREACHED_BYTES
    fresh_bytes: int = MAX_CHANGED_BYTES  # so that a variant runs from them in the process of its first run


class Explorer:
    """Chooses perturbations, and replays the captured kernel from the states that they make."""

    def __init__(
        self,
        store: Store,
        capture: Capture,
        settings: JudgeSettings,
        baselines: Baselines,
        arguments: Sequence[Pointer],
        replays: Speculation | None = None,
        seed: int | None = None,
        limits: Limits | None = None,
        source: Source | None = None,
    ) -> None:
        """``arguments``: those that are pointers. ``replays`` begins replays before somebody asks for them.

        seed: of fresh values; None: there are none. source: tells types of module variables.
        """
        self._store = store
        self.objects = RecentObjects(store)  # for those who compare states
        self._capture = capture
        self._settings = settings
        self._baselines = baselines
        self._arguments = tuple(arguments)
        self._replays = replays
        self._seed = seed
        self._limits = limits or Limits()
        self._source = source
        self.trials = Trials(
            store,
            capture,
            arguments,
            settings.default_type,
            is_exact=settings.bounds.is_exact,
            most_bytes=self._limits.region_bytes,
        )
        self._witnesses: dict[int, tuple[MemoryRef, MemoryRef] | None] = {}

    @cached_property
    def reach(self) -> ReachedMemory:
        """The regions that the kernel may write, and those that no known pointer leads to."""
        return find_reach(self._store, self._capture, self._arguments)

    @property
    def unreached(self) -> tuple[list[Region], list[Region]]:
        """Regions that no known pointer leads to: those within the limit, to be perturbed, and the rest."""
        return split_at(self.reach.unreached, self._limits.unreached_bytes)

    @cached_property
    def inputs(self) -> InputChoice:
        """The regions that arguments and variables lead to: those that get fresh values, and others.

        The smallest come first: the largest are mostly weights. Last come the module variables that the
        program has set, and the kernel only reads; with a reference, which does not know them, they stay.
        """
        left_out = {each.base_address for each in self.reach.unreached} | find_runtime_regions(self._capture)
        regions = [
            region
            for region in (*self.reach.candidates, *self.reach.others)
            if region.kind is not MemoryKind.CODE_OBJECT and region.base_address not in left_out
        ]
        regions.sort(key=lambda region: (region.size_bytes, region.base_address))
        variables = self._variables if self._settings.reference is None else []
        large = [each for each in variables if is_in_large_memory(self._capture, each)]
        regions += [each for each in variables if each not in large]
        return choose_inputs(regions, self._limits.fresh_bytes, large)

    @property
    def kept_variables(self) -> list[Region]:
        """The module variables that keep their captured values because of a reference."""
        return [] if self._settings.reference is None else self._variables

    @cached_property
    def _variables(self) -> list[Region]:
        return find_input_variables(self._store, self._capture)

    def find_input_parts(self, region: Region) -> tuple[Span, ...]:
        """Cut an input into parts whose elements have one type."""
        if region not in self._variables:
            return self.trials.find_parts(region)
        if region.pre is None:
            raise ValueError("the variable has no pre-state")
        name = name_variable(self._capture, region.base_address)
        files = () if self._source is None else self._source.files
        texts = (self._store.get(file.payload.digest) for file in files)
        return cut_variable(name, self._store.read_memory(region.pre.digest), texts)

    @cached_property
    def fresh(self) -> FreshInputs:
        """The states in which the inputs have fresh values."""
        inputs, unreached = self.inputs, self.unreached[0]
        fits = inputs.fresh_bytes + sum(region.size_bytes for region in unreached) <= MAX_CHANGED_BYTES
        beside = next(self.trials.make_joint(unreached), None) if fits else None
        is_exact, seed = self._settings.bounds.is_exact, self._seed or 0
        whole = [(region, self.find_input_parts(region)) for region in inputs.fresh]
        parts, alone = (
            [(region, inputs.cut(region, each, self._arguments, number)) for region, each in whole]
            for number in (seed, 0)
        )
        read = [each for each in parts if each[0] not in self.reach.candidates]
        return FreshInputs(
            self._baselines,
            parts,
            [each for _, each in alone],
            beside,
            self._begin_together,
            self._store,
            is_exact=is_exact,
            seed=seed,
            lone=LoneStates(self._store, self._capture, read, self._baselines, seed),
        )

    def _begin_together(self, starts: Sequence[Start]) -> None:
        """Begin replays of the captured kernel, in one process where its memory can change between runs."""
        if self._replays is None:
            return
        is_small = can_put_back(self._capture)
        together = [start for start in starts if is_small and start.changes is not None]
        for start in starts:
            if len(together) < 2 or start not in together:
                self._replays.begin(start, None)
        if len(together) > 1:
            self._replays.begin_further(Start(self._store, self._capture), together, None)

    def speculate(
        self,
        captured: Start,
        variant: Path,
        repeats: Repeats | None,
        again: Repeats | None,
    ) -> None:
        """Begin the replays that a right variant needs.

        repeats: of the run from the captured state. again: of runs from perturbed ones; None if these states
        are too large to be put back between runs.
        """
        if self._replays is None or self._capture.size_bytes > MAX_BYTES_AT_ONCE:
            return
        is_software = self._capture.device.software
        in_turn: list[Start] = []
        of_captured_kernel: list[Start] = []
        alone: list[Start] = []
        for region in self.reach.candidates[:MAX_REGIONS]:
            # Other trials are needed only if the captured kernel does not complete from this one.
            trial = next(self.trials.make(region), None)
            if trial is None:
                continue
            kept = self._baselines.find_kept(trial)
            if kept is None and is_software and not region.written:
                continue  # probably not needed
            start = self._baselines.start_from(trial)
            if kept is None:
                of_captured_kernel.append(start)
                if not is_software and len(of_captured_kernel) == 1:
                    self._replays.expect()
                if not region.written:
                    continue
            elif all(state.base_address != region.base_address for state in kept.outputs):
                continue
            if again is not None and start.changes is not None:
                in_turn.append(start)
            elif kept is not None or not is_software:
                alone.append(start)
        if alone and not is_software and self._capture.size_bytes > MAX_BYTES_KEPT:
            self._replays.expect()  # while values become fresh
        has_fresh = self._seed is not None and bool(self.inputs.fresh)
        known = self.fresh.found if has_fresh else None
        fresh = known.start if known else (self.fresh.guess_start() if has_fresh else None)
        if fresh is not None:
            all_fresh = [fresh, *self.fresh.choose_others(fresh)]
            if known is None:
                of_captured_kernel += all_fresh
            if again is not None and fresh.changes is not None:
                in_turn += all_fresh
        unreached = self._guess_unreached(fresh)
        if in_turn and unreached is not None and unreached.changes is not None:
            in_turn.append(unreached)
        if not is_software:
            self._begin_together([start for start in of_captured_kernel if start not in alone])
        if in_turn:
            self._replays.begin_in_turn(captured, in_turn, variant, repeats)
        if is_software and in_turn:
            # Two replays at once slow each other down there: the variant's comes first.
            self._begin_together(of_captured_kernel)
        # To make and to restore these takes all cores, so fresh values come first.
        for start in alone:
            if start in of_captured_kernel:
                self._replays.begin(start, None)
            self._replays.begin(start, variant, again)

    def _guess_unreached(self, fresh: Start | None) -> Start | None:
        """Return the state with unreached memory perturbed, if the judge will need it by itself.

        None if it is perturbed in ``fresh``, the state with fresh values, or if no earlier validation found
        that the captured kernel bears it.
        """
        if fresh is not None and not all(trial.is_fresh for trial in fresh.trials):
            return None
        for trials in self.trials.make_joint(self.unreached[0]):
            kept = self._baselines.find_kept(*trials)
            if kept is None:
                return None
            if kept.outcome is ReplayOutcome.COMPLETED:
                return self._baselines.start_from(*trials)
        return None

    def begin_turns(
        self, captured: Start, found: Sequence[BaselineRun], variant: Path, again: Repeats | None
    ) -> None:
        """Begin runs of a variant from states with fresh values in one process, unless that was done before.

        again: as for ``speculate``.
        """
        starts = [each.start for each in found]
        if self._replays is None or again is None or any(start.changes is None for start in starts):
            return
        if starts and not any(self._replays.has_begun(start, variant) for start in starts):
            self._replays.begin_further(captured, starts, variant, again.order)

    def find_baseline(self, region: Region, golden: Mapping[int, MemoryRef]) -> BaselineRun | None:
        """Replay the captured kernel from a state with a region perturbed, as strongly as it still completes.

        Prefers the first state from which the kernel writes the region. None if it completes from none.
        """
        strong = untouched = None
        for trial in self.trials.make(region):
            is_strong = trial.perturbation is Perturbation.STRONG
            found = self._baselines.run_from(trial)
            if not found.completed:
                continue
            if region.base_address not in found.changed:
                # A kernel that clamps may leave strongly perturbed values as they are.
                if is_strong:
                    continue
                untouched = untouched or found
                if not region.written:
                    break
            elif not is_strong or self._overwrites(region, found, golden):
                return found
            else:
                strong = found
        return strong or untouched

    def find_joint_baseline(self, regions: Sequence[Region]) -> BaselineRun | None:
        """Replay the captured kernel from a state in which all these regions are lightly perturbed.

        Perturbs them everywhere if the kernel completes from that. None if they are too large, or the kernel
        completes from no perturbed state.
        """
        for trials in self.trials.make_joint(regions):
            found = self._baselines.run_from(*trials)
            if found.completed:
                return found
        return None

    def _overwrites(self, region: Region, found: BaselineRun, golden: Mapping[int, MemoryRef]) -> bool:
        """Whether the kernel writes the golden values whatever the region's pre-state is."""
        base = region.base_address
        after = found.outputs[base]
        states = States(found.start.pre_states[base], after, golden.get(base, after), region.size_bytes)
        difference = compare_states(self._store, states, "bytes", Bounds())
        others = (found.outputs.get(each) == post for each, post in golden.items() if each != base)
        return difference.differing_bytes == 0 and all(others)

    def find_witness(self, base: int) -> tuple[MemoryRef, MemoryRef] | None:
        """Return a region's state before and after a replay of the captured kernel from a perturbed state.

        Where the two differ the kernel writes, even if in the captured dispatch it wrote the value that was
        there. None if the kernel completes from no perturbed state.
        """
        if base not in self._witnesses:
            self._witnesses[base] = self._make_witness(base)
        return self._witnesses[base]

    def _make_witness(self, base: int) -> tuple[MemoryRef, MemoryRef] | None:
        region = next(each for each in self._capture.regions if each.base_address == base)
        for trial in self.trials.make(region) if not region.read_only else ():
            if trial.perturbation in _WITNESSES:
                found = self._baselines.run_from(trial)
                if found.completed:
                    return found.start.pre_states[base], found.outputs[base]
        return None


def is_everywhere(found: BaselineRun) -> bool:
    """Whether the perturbations covered all bytes of their regions, addresses included."""
    return all(trial.perturbation in EVERYWHERE for trial in found.start.trials)
