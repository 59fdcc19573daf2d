"""The verdict: whether a variant does what the baseline did, from the captured state and from others."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from kerncap_stages.bounds import Bounds
from kerncap_stages.manifests.memory import MemoryKind
from kerncap_stages.manifests.validation import Coverage, Mode
from kerncap_stages.replaying.variant import runtime_regions
from kerncap_stages.validation.addresses import explain_addresses
from kerncap_stages.validation.ahead import PATIENCE_S, Ahead
from kerncap_stages.validation.arguments import Span, pointers, spans
from kerncap_stages.validation.judgement import Judgement, PartVerdict, part_name, wrong_output
from kerncap_stages.validation.perturb import (
    MOST_BYTES,
    MOST_REGIONS,
    Altered,
    Change,
    candidate_regions,
    with_pre_state,
)
from kerncap_stages.validation.runs import Baselines, Run, run_once
from kerncap_stages.validation.states import RegionDifference, States, changed_bytes, compare_states

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.manifests.source import Source
    from kerncap_stages.store import Store
    from kerncap_stages.validation.arguments import Pointer
    from kerncap_stages.validation.settings import Settings

# A changed element is up to twice as large, and what is made of two such may have four times the error.
_WIDER = 4.0
_LEAST_PATIENCE_S = 30.0
_PATIENCE = 20.0


class Judge:
    """Judges kernels against one capture."""

    def __init__(
        self, store: Store, capture: Capture, source: Source | None, settings: Settings, baselines: Baselines
    ) -> None:
        """``source`` may name the types of arguments that the kernel's symbol does not."""
        self._store = store
        self._capture = capture
        self._settings = settings
        self._baselines = baselines
        self._arguments: tuple[Pointer, ...] = pointers(store, capture, source)
        self._patience_s = settings.timeout_s
        self._witnesses: dict[int, tuple[MemoryRef, MemoryRef] | None] = {}
        self._judgement = Judgement(Mode.BYTE_EXACT if settings.bounds.exact else Mode.NUMERIC)

    def judge(self, variant: Path | None) -> Judgement:
        """Compare a variant, or the baseline itself, with what the captured dispatch did.

        Raises what keeps a replay from being run at all; a kernel that faults or hangs is a failed verdict.
        """
        if variant is None:
            self._judge_baseline()
        else:
            self._judge_variant(variant)
        return self._judgement

    def _judge_variant(self, variant: Path) -> None:
        with Ahead(lambda start: run_once(self._store, start, variant, PATIENCE_S)) as ahead:
            if self._settings.perturb and self._settings.bounds.exact and self._capture.has_post:
                ahead.begin(self._capture, self._known_changes())
            self._judge_beside(variant, ahead)

    def _known_changes(self) -> Iterator[tuple[Region, MemoryRef]]:
        """Changed states of regions that are sure to be asked for if the variant is right."""
        for region in self._candidates[:MOST_REGIONS]:
            for change in self._changes(region):
                pre = self._baselines.known_change(region, change, self._parts(region))
                if pre is not None:
                    yield region, pre
                break  # only where the baseline does not run from this one is another asked for

    def _judge_beside(self, variant: Path, ahead: Ahead) -> None:
        judgement = self._judgement
        began = time.monotonic()
        run = run_once(self._store, self._capture, variant, self._settings.timeout_s)
        # From changed states a kernel may never end: it gets a good deal longer than from the captured one.
        patience_s = max(_LEAST_PATIENCE_S, _PATIENCE * (time.monotonic() - began))
        self._patience_s = self._baselines.patience_s = min(patience_s, self._settings.timeout_s)
        if not run.completed:
            judgement.fail(f"the variant {run.ending}")
            return
        golden = self._golden()
        judgement.coverage = Coverage.DIFFERENCE
        if golden is None:
            # A capture without a post-state: what the baseline does now stands in for it.
            baseline = self._baselines.run()
            if not baseline.completed:
                judgement.fail(f"the baseline does not replay: {baseline.explanation}")
                return
            golden = dict(baseline.outputs)
        self._compare(self._capture, golden, run, self._settings.bounds, None)
        if not judgement.passed:
            self._mention_nondeterminism()
        elif self._settings.perturb:
            self._judge_changed(variant, golden, ahead)

    def _golden(self) -> dict[int, MemoryRef] | None:
        if not self._capture.has_post:
            return None
        return {
            region.base_address: region.post for region in self._capture.regions if region.post is not None
        }

    def _judge_baseline(self) -> None:
        judgement = self._judgement
        golden = self._golden()
        judgement.mode = Mode.SMOKE if golden is None else Mode.BASELINE
        runs: list[Run] = []
        for number in range(max(1, self._settings.baseline_runs)):
            run = self._baselines.run(number)
            judgement.baseline_runs += 1
            if not run.completed:
                judgement.fail(f"the baseline {run.ending}")
                return
            runs.append(run)
        unsteady = self._unsteady(runs)
        judgement.nondeterministic_bytes = sum(unsteady.values())
        if unsteady:
            judgement.note(f"not deterministic: {sum(unsteady.values())} bytes differ between replays")
        if golden is not None:
            judgement.coverage = Coverage.DIFFERENCE
            # What differs between two replays of the very same code says nothing against it.
            steady = {base: state for base, state in golden.items() if base not in unsteady}
            self._compare(self._capture, steady, runs[0], self._settings.bounds, None)

    def _unsteady(self, runs: list[Run]) -> dict[int, int]:
        """Bytes that differ between replays, by the region they are in."""
        first, *others = runs
        found: dict[int, int] = {}
        for base, state in first.outputs.items():
            count = sum(changed_bytes(self._store, state, other.outputs[base]) for other in others)
            if count:
                found[base] = count
        return found

    def _mention_nondeterminism(self) -> None:
        runs = [self._baselines.run(number) for number in range(2)]
        self._judgement.baseline_runs = len(runs)
        if all(run.completed for run in runs) and (unsteady := self._unsteady(runs)):
            self._judgement.nondeterministic_bytes = sum(unsteady.values())
            self._judgement.note(
                f"the captured kernel itself is not deterministic ({sum(unsteady.values())} bytes differ "
                "between two replays of it): compare with a tolerance"
            )

    def _parts(self, region: Region) -> tuple[Span, ...]:
        if self._settings.default_type is not None:
            labels = [part.label for part in spans(region, self._arguments) if part.label]
            return (Span(0, region.size_bytes, self._settings.default_type, ", ".join(labels)),)
        return spans(region, self._arguments)

    def _compare(
        self,
        start: Capture,
        expected: Mapping[int, MemoryRef],
        run: Run,
        bounds: Bounds,
        changed_base: int | None,
    ) -> None:
        of_runtime = runtime_regions(self._capture)
        for region in start.regions:
            base = region.base_address
            if region.pre is None or base not in expected or base in of_runtime:
                continue
            if base not in run.outputs:
                self._judgement.fail(f"the replay gave no state of region {base:#x}")
                continue
            states = States(region.pre, expected[base], run.outputs[base], region.size_bytes)
            if states.pre == states.expected == states.actual:
                continue
            for part in self._parts(region):
                found = self._compare_part(region, states, part, bounds)
                if found.written_bytes or found.differing_bytes or found.stray_bytes:
                    self._weigh(PartVerdict(region, part, found, changed_base))
                if changed_base is None and not found.difference.passed:
                    self._explain(states, part)

    def _compare_part(self, region: Region, states: States, part: Span, bounds: Bounds) -> RegionDifference:
        kind, window = part.element_type or "bytes", (part.start, part.end)
        found = compare_states(self._store, states, kind, bounds, window)
        if found.stray_bytes:
            # Astray, or in an output that the captured kernel wrote with what was there before?
            witness = self._witness(region)
            if witness is not None:
                known = replace(states, witness=witness)
                found = compare_states(self._store, known, kind, bounds, window)
        return found

    def _witness(self, region: Region) -> tuple[MemoryRef, MemoryRef] | None:
        base = region.base_address
        if base not in self._witnesses:
            self._witnesses[base] = None
            original = next(each for each in self._capture.regions if each.base_address == base)
            changes = [change for change in self._changes(original) if change is Change.NUDGE]
            for change in changes if not original.read_only else ():
                state, run = self._baselines.run_changed(original, change, self._parts(original))
                if run.completed:
                    self._witnesses[base] = (state.pre, run.outputs[base])
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

    @cached_property
    def _candidates(self) -> list[Region]:
        return candidate_regions(self._store, self._capture, self._arguments)

    def _judge_changed(self, variant: Path, golden: Mapping[int, MemoryRef], ahead: Ahead) -> None:
        judgement, regions = self._judgement, self._candidates
        if len(regions) > MOST_REGIONS:
            judgement.note(f"only {MOST_REGIONS} of {len(regions)} regions were tried with other contents")
        tried = 0
        for region in regions[:MOST_REGIONS]:
            state, baseline = self._changed_baseline(region, golden)
            if state is None or baseline is None:
                continue
            tried += state.change is not Change.NUDGE_WRITTEN
            if baseline.outputs.get(region.base_address) == state.pre:
                continue  # only read: the variant may read it or not
            judgement.pre_states += 1
            judgement.poisoned_bytes += region.size_bytes
            changed = with_pre_state(self._capture, region, state.pre)
            run = ahead.completed(region, state.pre)
            run = run or run_once(self._store, changed, variant, self._patience_s)
            if not run.completed:
                judgement.fail(f"from another pre-state the variant {run.ending}")
                continue
            bounds = self._settings.bounds
            if bounds.atol is not None and state.change is not Change.POISON:
                bounds = replace(bounds, atol=bounds.atol * _WIDER)
            self._compare(changed, baseline.outputs, run, bounds, region.base_address)
        if tried == len(regions):
            judgement.coverage = Coverage.PERTURBED
        elif judgement.passed:
            judgement.note(
                "some regions could not be tried with other contents everywhere: the kernel does not run on "
                "them, or they are too large"
            )

    def _changed_baseline(
        self, region: Region, golden: Mapping[int, MemoryRef]
    ) -> tuple[Altered | None, Run | None]:
        """The baseline from a state where a region is changed, as much of it as the kernel bears."""
        parts = self._parts(region)
        for change in self._changes(region):
            state, run = self._baselines.run_changed(region, change, parts)
            if not run.completed:
                continue
            if change is Change.POISON and not self._is_pure(region, state, run, golden):
                continue
            return state, run
        return None, None

    def _changes(self, region: Region) -> Iterator[Change]:
        # Instructions lie beside a code object's variables.
        if region.size_bytes <= MOST_BYTES and region.kind is not MemoryKind.CODE_OBJECT:
            if not self._settings.bounds.exact:
                yield Change.POISON
            yield Change.NUDGE
        if region.written:
            yield Change.NUDGE_WRITTEN

    def _is_pure(self, region: Region, state: Altered, run: Run, golden: Mapping[int, MemoryRef]) -> bool:
        """Whether what the kernel writes there does not depend on what was there: golden values hold."""
        base = region.base_address
        if run.outputs[base] == state.pre:
            return True  # only read
        states = States(state.pre, run.outputs[base], golden.get(base, run.outputs[base]), region.size_bytes)
        found = compare_states(self._store, states, "bytes", Bounds())
        others = (run.outputs.get(each) == post for each, post in golden.items() if each != base)
        return found.differing_bytes == 0 and all(others)
