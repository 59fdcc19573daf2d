"""Finds writes that no output shows: outside of all captured memory, or to an input that is restored.

The software GPU tells which parts of the captured memory a run wrote. A part that the variant writes, and
that the captured kernel from the same state does not, is memory that the captured kernel only reads, or does
not use. Others may read it at the same time: kernels on other streams, the host.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from kerncap_stages.collect.write_set import find_written_ranges
from kerncap_stages.replay.accesses import find_data_regions
from kerncap_stages.validate.evidence import judge_stray_writes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.store import Store
    from kerncap_stages.validate.arguments import Pointer
    from kerncap_stages.validate.judgement import Judgement
    from kerncap_stages.validate.perturb.start import Start
    from kerncap_stages.validate.replayer import Run
    from kerncap_stages.validate.speculation import Speculation


class UnexpectedWrites:
    """Judges where runs of a variant wrote, in memory of one capture."""

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
