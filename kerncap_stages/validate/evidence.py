"""Compares the outputs of a replay, part by part, with the expected ones, and looks for other writes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from kerncap_stages.collect.write_set import find_written_ranges
from kerncap_stages.manifests.validation import Mode
from kerncap_stages.replay.accesses import find_data_regions
from kerncap_stages.replay.variant import find_runtime_regions
from kerncap_stages.text.formats import count
from kerncap_stages.validate.arguments import explain_addresses
from kerncap_stages.validate.compare.regions import RegionDifference, States, compare_states
from kerncap_stages.validate.compare.scaled_bounds import scale_bounds
from kerncap_stages.validate.judgement import Judgement, PartVerdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.store import Store
    from kerncap_stages.validate.arguments import Pointer, Span
    from kerncap_stages.validate.compare.bounds import Bounds
    from kerncap_stages.validate.explorer import Explorer
    from kerncap_stages.validate.perturb.start import Start
    from kerncap_stages.validate.replayer import Run
    from kerncap_stages.validate.speculation import Speculation


@dataclass(frozen=True)
class Expectation:
    """The expected outputs of a run from a state, by region, and the bounds of the comparison.

    ``nondeterministic``: parts that are not compared, each as its region's base address and its start.
    """

    start: Start
    expected: Mapping[int, MemoryRef]
    bounds: Bounds
    nondeterministic: frozenset[tuple[int, int]] = frozenset()

    @property
    def perturbed_base(self) -> int | None:
        """Base address of the first perturbed region."""
        return self.start.trials[0].region.base_address if self.start.trials else None


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
        for region, expected in self._find_compared(wanted):
            base = region.base_address
            if base not in run.outputs:
                judgement = judgement.fail(f"the replay gave no state of region {base:#x}")
                continue
            states = _make_states(region, expected, run.outputs[base])
            if states.pre == states.expected == states.actual:
                continue
            judgement = replace(
                judgement,
                changes_expected=judgement.changes_expected or states.expected != states.pre,
                changes_made=judgement.changes_made or states.actual != states.pre,
            )
            for part in self._explorer.find_parts(region):
                if (base, part.start) not in wanted.nondeterministic:
                    bounds = self._choose_bounds(wanted, region, expected, part)
                    found = self._compare_part(region, states, part, bounds)
                    verdict = PartVerdict(region, part, found, wanted.perturbed_base)
                    judgement = _add_part(judgement, verdict)
                    if not wanted.start.is_perturbed and not found.difference.passed:
                        judgement = judgement.note(*self._explain(states, part))
        return judgement

    def exclude_nondeterministic(self, wanted: Expectation, baseline: Run) -> Expectation:
        """Exclude parts in which replays of the captured kernel itself are not within the bounds."""
        nondeterministic: set[tuple[int, int]] = set()
        for region, expected in self._find_compared(wanted):
            for outputs in (baseline.outputs, *baseline.differing):
                actual = outputs.get(region.base_address)
                if actual is None or actual == expected:
                    continue
                states = _make_states(region, expected, actual)
                nondeterministic |= {
                    (region.base_address, part.start)
                    for part in self._explorer.find_parts(region)
                    if not self._compare_part(
                        region, states, part, self._choose_bounds(wanted, region, expected, part)
                    ).passed
                }
        return replace(wanted, nondeterministic=frozenset(nondeterministic))

    def _find_compared(self, wanted: Expectation) -> Iterator[tuple[Region, MemoryRef]]:
        """Yield the regions to compare, with their pre-states at the start, and their expected outputs."""
        of_runtime = find_runtime_regions(self._capture)
        for region in wanted.start.capture.regions:
            expected = wanted.expected.get(region.base_address)
            if region.pre is not None and expected is not None and region.base_address not in of_runtime:
                yield region, expected

    def _choose_bounds(self, wanted: Expectation, region: Region, expected: MemoryRef, part: Span) -> Bounds:
        """Choose the bounds for a part: with fresh values, relative ones apply to its largest element.

        Fresh values may cancel each other in sums where the captured ones do not, so the largest element that
        the captured dispatch wrote counts, too. Fresh values show whether a variant computes the same, not
        how precisely.
        """
        if wanted.bounds.is_exact or not wanted.start.is_fresh:
            return wanted.bounds
        captured = next(each for each in self._capture.regions if each.base_address == region.base_address)
        written = [
            (before, after)
            for before, after in ((region.pre, expected), (captured.pre, captured.post))
            if before is not None and after is not None and before != after
        ]
        states = [
            tuple(self._store.read_memory(state.digest)[part.start : part.end] for state in pair)
            for pair in written
        ]
        return scale_bounds(wanted.bounds, states, part.element_type)

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

    def _explain(self, states: States, part: Span) -> list[str]:
        window = (part.start, part.end)
        why = explain_addresses(
            self._store, self._capture, self._arguments, states.expected, states.actual, window
        )
        return [] if why is None else [why]


class UnexpectedWrites:
    """Finds writes that no output shows: outside of all captured memory, or to an input that is restored.

    The software GPU tells which parts of the captured memory a run wrote. A part that the variant writes, and
    that the captured kernel from the same state does not, is memory that the captured kernel only reads, or
    does not use. Others may read it at the same time: kernels on other streams, the host.
    """

    def __init__(
        self, store: Store, capture: Capture, arguments: Sequence[Pointer], replays: Speculation
    ) -> None:
        """``arguments``: those that are pointers; a part begins where one of them leads to."""
        self._store = store
        self._capture = capture
        self._replays = replays
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
        replays.watch_writes([(base + begin, base + end) for base, begin, end in self._parts])

    def judge(
        self, judgement: Judgement, start: Start, run: Run, expected: Mapping[int, MemoryRef]
    ) -> Judgement:
        """Fail a variant whose run wrote where the captured kernel does not write from the same state.

        expected: what the captured kernel leaves there. A part that it changes needs no replay of it.
        """
        known_outside = self._replays.run(start, None).outside if run.outside else ()
        judgement = judge_stray_writes(judgement, run, known_outside)
        if not judgement.passed or not run.writes:
            return judgement
        suspected = run.writes - set(self._find_changed(start, run.writes, expected))
        if suspected and start.key not in self._of_captured_kernel:
            self._of_captured_kernel[start.key] = self._replays.run(start, None).writes
        known = self._of_captured_kernel.get(start.key) if suspected else None
        if known is None or not suspected - known:
            return judgement
        names = ", ".join(self._labels[part] for part in sorted(suspected - known))
        return judgement.fail(
            f"the variant writes where the captured kernel does not, and puts back what was there: {names}"
        )

    def _find_changed(
        self, start: Start, parts: frozenset[int], expected: Mapping[int, MemoryRef]
    ) -> Iterator[int]:
        """Yield those of the parts in which the captured kernel changes bytes."""
        before = start.pre_states
        ranges: dict[int, tuple[tuple[int, int], ...]] = {}
        for part in parts:
            base, begin, end = self._parts[part]
            if base not in ranges:
                after = expected.get(base, before[base])
                ranges[base] = find_written_ranges(self._store, before[base], after).ranges
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


def _make_states(region: Region, expected: MemoryRef, actual: MemoryRef) -> States:
    if region.pre is None:
        raise ValueError("the region has no pre-state")
    return States(region.pre, expected, actual, region.size_bytes)


def _add_part(judgement: Judgement, verdict: PartVerdict) -> Judgement:
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
        judgement = judgement.fail(
            "all elements of an output are wrong: perhaps the variant does not write it"
            if is_all
            else "outputs differ from those of the captured kernel"
        )
    if found.stray_bytes:
        judgement = judgement.fail("the variant writes where the captured kernel does not")
    return judgement
