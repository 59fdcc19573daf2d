"""Finds writes of a variant that its outputs do not show: outside of captured memory, or put back later."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from kerncap_stages.collect.write_set import find_written_ranges
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.replay.accesses import find_data_regions
from kerncap_stages.replay.report import GuardedRuns
from kerncap_stages.replay.runner import Guard, Repeats
from kerncap_stages.text.formats import count
from kerncap_stages.validate.judgement import WRITES_ELSEWHERE, Guarded
from kerncap_stages.validate.perturb.memory_ranges import find_rest, halve_ranges, merge_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests import ReadsObjects
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.validate.arguments import Pointer
    from kerncap_stages.validate.judgement import Judgement
    from kerncap_stages.validate.perturb.start import Start
    from kerncap_stages.validate.replays.baselines import Baselines
    from kerncap_stages.validate.replays.replayer import Run
    from kerncap_stages.validate.replays.speculation import Speculation

NOT_RECORDED = (
    "writes were not recorded, so nobody looked for memory that the variant writes and puts back: "
    "unset KERNCAP_SOFTGPU_COUNT, if it is set"
)
PUTS_BACK = f"{WRITES_ELSEWHERE}, and puts back what was there"
NOTHING_TO_COMPARE_WITH = (
    "the captured kernel's writes were not recorded, so nobody looked for memory that the variant alone "
    "writes and puts back"
)


# The software GPU counts into a file of the user's: then nobody reads which writes it recorded.
COUNTS = "KERNCAP_SOFTGPU_COUNT"
# Trials that find the memory which a kernel must be able to write; each is a process, and the last may fault.
_MAX_TRIALS = 8
_MAX_NAMES = 4
_ADDRESS = re.compile(r"(?<=accessed )0x[0-9a-f]+")


class UnexpectedWrites:
    """Finds writes that no output shows: outside of all captured memory, or to an input that is restored.

    The software GPU tells which parts of the captured memory a run wrote. A part that the variant writes, and
    that the captured kernel from the same state does not, is memory that the captured kernel only reads, or
    does not use. Others may read it at the same time: kernels on other streams, the host.
    """

    def __init__(
        self,
        objects: ReadsObjects,
        capture: Capture,
        arguments: Sequence[Pointer],
        replays: Speculation,
        baselines: Baselines,
    ) -> None:
        """``objects``: the store's. ``arguments``: those that are pointers; a part begins where one leads to.

        baselines: replays of the captured kernel, by which it is known where it writes.
        """
        self._objects = objects
        self._replays = replays
        # A GPU does not tell what a kernel writes: docs/edit-loop.md says so, not each verdict.
        self._is_recorded = capture.device.software
        self._labels: list[str] = []
        self._parts: list[tuple[int, int, int]] = []  # base address of the region, begin and end in it
        for region in find_data_regions(capture):
            labels: dict[int, list[str]] = {0: []}
            for pointer in arguments:
                if region.contains(pointer.address):
                    labels.setdefault(pointer.address - region.base_address, []).append(pointer.label)
            for begin, end in pairwise([*sorted(labels), region.size_bytes]):
                self._parts.append((region.base_address, begin, end))
                where = f"{end - begin} bytes at {region.base_address + begin:#x}"
                self._labels.append(", ".join(labels[begin]) or where)
        self._of_captured_kernel: dict[object, frozenset[int] | None] = {}
        parts = [(base + begin, base + end) for base, begin, end in self._parts]
        replays.watch_writes(parts)
        self._is_guarded = capture.has_post and (not self._is_recorded or COUNTS in os.environ)
        self._guarded = GuardedWrites(objects, capture, parts, self._labels, replays, baselines)
        self._to_judge: list[tuple[Start, GuardedRuns | None, Mapping[int, MemoryRef]]] = []

    @property
    def guard(self) -> Guard | None:
        """What the variant cannot write in some further runs; None where the device tells what it writes."""
        return self._guarded.guard if self._is_guarded else None

    def judge(
        self,
        judgement: Judgement,
        start: Start,
        run: Run,
        expected: Mapping[int, MemoryRef],
        repeats: Repeats | None = None,
    ) -> Judgement:
        """Fail a variant whose runs wrote where the captured kernel does not write from the same state.

        expected: what the captured kernel leaves there. A part that it changes needs no replay of it.
        repeats: how often the variant ran; the captured kernel may write in a later run only, too.
        """
        if not start.is_perturbed:
            self._to_judge.clear()
        if run.guard is not None or (self._to_judge and start.is_fresh):
            self._to_judge.append((start, run.guard, expected))
        known_outside = self._replays.run(start, None).outside if run.outside else ()
        judgement = judge_stray_writes(judgement, run, known_outside)
        if not judgement.passed:
            return judgement
        if run.writes is None and self._is_recorded and self._parts and not self._to_judge:
            return judgement.note(NOT_RECORDED)
        if not run.writes:
            return judgement
        suspected = run.writes - set(self._find_changed(start, run.writes, expected))
        if suspected and start.key not in self._of_captured_kernel:
            self._of_captured_kernel[start.key] = self._replays.run(start, None, repeats).writes
        known = self._of_captured_kernel[start.key] if suspected else frozenset()
        if known is None:
            return judgement.note(NOTHING_TO_COMPARE_WITH)
        if not suspected - known:
            return judgement
        unexpected = suspected - known
        restored = unexpected - set(self._find_changed(start, unexpected, run.outputs))
        names = ", ".join(self._labels[part] for part in sorted(restored or unexpected))
        return judgement.fail(f"{PUTS_BACK if restored else WRITES_ELSEWHERE}: {names}")

    def judge_guarded(self, judgement: Judgement, variant: Path) -> Judgement:
        """Fail a variant that cannot complete where it may only write where the captured kernel does.

        Call it when all else was judged: by then more is known of where the captured kernel writes.
        """
        guard = self.guard
        for start, runs, expected in self._to_judge:
            if not judgement.passed:
                break
            if runs is None and self.guard != guard and self._guarded.guard.fresh:
                # A fault from the captured state, which was none of the variant's, left it out.
                runs = self._guarded.run(start, variant, self._guarded.guard)
            if runs is not None:
                judgement = self._guarded.judge(judgement, start, variant, runs, expected)
        return judgement

    def _find_changed(
        self, start: Start, parts: frozenset[int], outputs: Mapping[int, MemoryRef]
    ) -> Iterator[int]:
        """Yield those of the parts in which a run with these outputs changed bytes."""
        before = start.pre_states
        ranges: dict[int, tuple[tuple[int, int], ...]] = {}
        for part in parts:
            base, begin, end = self._parts[part]
            if base not in ranges:
                after = outputs.get(base, before[base])
                ranges[base] = find_written_ranges(self._objects, before[base], after).ranges
            if any(at < end and begin < at + length for at, length in ranges[base]):
                yield part


def judge_stray_writes(judgement: Judgement, run: Run, known: Sequence[tuple[int, int]]) -> Judgement:
    """Fail a variant that writes outside of all captured memory: the program may use that for other data.

    known: (address, length) of writes there by the captured kernel from the same state.
    """
    astray = [
        (base, size)
        for base, size in run.outside
        if not any(low <= base and base + size <= low + length for low, length in known)
    ]
    if not astray:
        return judgement
    return judgement.fail(
        "the variant writes outside of all captured memory, "
        f"{count(sum(size for _, size in astray), 'byte')} starting at {astray[0][0]:#x}"
    )


class GuardedWrites:
    """Judges guarded runs: memory in which the captured kernel changes nothing could not be written.

    A GPU does not tell what a kernel writes, but a write to such memory is a fault. The captured kernel may
    write there, too, what was there before: then it faults as well, and that memory is left open.
    """

    def __init__(
        self,
        objects: ReadsObjects,
        capture: Capture,
        parts: Sequence[tuple[int, int]],
        labels: Sequence[str],
        replays: Speculation,
        baselines: Baselines,
    ) -> None:
        """``parts``: of the captured data, as first addresses and those behind the ends, with their names."""
        self._objects = objects
        self._parts = parts
        self._labels = labels
        self._replays = replays
        self._baselines = baselines
        self._pre = {region.base_address: region.pre for region in capture.regions}
        self._written = [
            (region.base_address + offset, region.base_address + offset + size)
            for region in capture.regions
            for offset, size in region.written or ()
        ]
        kept, fresh = baselines.find_guarded(), baselines.find_guarded(fresh=True)
        self.guard = Guard(
            () if kept is None else tuple((begin, begin + size) for begin, size in kept.opened),
            fresh=fresh is None or fresh.outcome is ReplayOutcome.COMPLETED,
        )
        self._borne: dict[tuple[object, Guard], bool] = {}

    def judge(
        self,
        judgement: Judgement,
        start: Start,
        variant: Path,
        runs: GuardedRuns,
        expected: Mapping[int, MemoryRef],
    ) -> Judgement:
        """Judge guarded runs of a variant from a state; ``expected``: what the captured kernel leaves."""
        added = self._find_added(start, expected) if runs.fault else []
        if added:
            self._open(added)
            runs = self.run(start, variant, self.guard)
        if runs.fault and not self._is_borne(start, self.guard):
            if start.is_fresh:
                self.guard = replace(self.guard, fresh=False)
                self._baselines.keep_guarded(ReplayOutcome.FAULTED, fresh=True)
                return judgement
            self._open(self._leave_out(start))
            runs = self.run(start, variant, self.guard)
        if runs.fault:
            names = ", ".join(self._find_names(start, variant, self.guard, runs.fault))
            return judgement.fail(f"{PUTS_BACK}: {names}", f"with that memory read-only, {runs.fault}")
        found = judgement.guarded or Guarded(runs.size_bytes, runs.runs)
        if start.is_fresh:
            found = replace(found, fresh_runs=found.fresh_runs + runs.runs)
        found = replace(found, opened=self.guard.opened, failure=found.failure or runs.failure)
        return replace(judgement, guarded=found)

    def _open(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Leave further memory open, in later verdicts, too."""
        self.guard = replace(self.guard, opened=merge_ranges([*self.guard.opened, *ranges]))
        self._baselines.keep_guarded(ReplayOutcome.COMPLETED, self.guard.opened)

    def _leave_out(self, start: Start) -> list[tuple[int, int]]:
        """Return the memory of which the captured kernel does not bear that it is guarded.

        Halves what faults: what is not decided after a few trials is left open, too.
        """
        guarded: list[tuple[int, int]] = []
        undecided = halve_ranges(self._parts)
        for _ in range(_MAX_TRIALS):
            if not undecided:
                break
            group = undecided.pop(0)
            others = find_rest(self._parts, [*guarded, *group])
            opened = merge_ranges([*self.guard.opened, *others])
            if self._is_borne(start, replace(self.guard, opened=opened)):
                guarded += group
            else:
                undecided += halve_ranges(group)
        return list(find_rest(self._parts, guarded))

    def _is_borne(self, start: Start, guard: Guard) -> bool:
        """Whether the captured kernel completes with a guard."""
        if (start.key, guard) not in self._borne:
            runs = self.run(start, None, guard)
            self._borne[start.key, guard] = not runs.fault and not runs.failure
        return self._borne[start.key, guard]

    def run(self, start: Start, variant: Path | None, guard: Guard) -> GuardedRuns:
        """Make guarded runs in a process of their own; without a variant, of the captured kernel."""
        run = self._replays.run(start, variant, Repeats(1, budget_ms=0, guard=guard))
        if run.guard is None:
            return GuardedRuns(0, 0, 0, failure=run.ending if not run.completed else "")
        return run.guard

    def _find_added(self, start: Start, expected: Mapping[int, MemoryRef]) -> list[tuple[int, int]]:
        """Return where replays of the captured kernel from any state changed memory that is guarded."""
        pairs = [(base, start.pre_states.get(base), after) for base, after in expected.items()]
        for replay in self._baselines.kept:
            if replay.changed_region is not None:
                pre = {**self._pre, replay.changed_region: replay.pre_state}
                pairs += [(base, pre.get(base), after) for base, after in replay.changed.items()]
        known = merge_ranges([*self._written, *self.guard.opened])
        return [
            (base + offset, base + offset + size)
            for base, before, after in dict.fromkeys(pairs)
            if before is not None and before != after
            for offset, size in find_written_ranges(self._objects, before, after).ranges
            if not any(low <= base + offset and base + offset + size <= high for low, high in known)
        ]

    def _find_names(self, start: Start, variant: Path, guard: Guard, fault: str) -> list[str]:
        """Name the parts that a variant writes: by the fault's address, else by trials with some guarded."""
        numbers = list(range(len(self._parts)))
        address = _ADDRESS.search(fault)
        if address is not None:
            where = int(address.group(), 16)
            numbers = [each for each in numbers if self._parts[each][0] <= where < self._parts[each][1]]
        for _ in range(_MAX_TRIALS):
            if address is not None or len(numbers) < 2:
                break
            half = numbers[: len(numbers) // 2]
            others = find_rest(self._parts, [self._parts[each] for each in half])
            tried = replace(guard, opened=merge_ranges([*guard.opened, *others]))
            numbers = half if self.run(start, variant, tried).fault else numbers[len(half) :]
        names = [self._labels[each] for each in numbers]
        return [*names[:_MAX_NAMES], *(["or other memory"] if len(names) > _MAX_NAMES else [])] or ["memory"]
