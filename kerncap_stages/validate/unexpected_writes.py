"""Finds writes of a variant that its outputs do not show: outside of captured memory, or put back later."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from kerncap_stages.collect.write_set import find_written_ranges
from kerncap_stages.replay.accesses import find_data_regions
from kerncap_stages.text.formats import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.replay.runner import Repeats
    from kerncap_stages.store import Store
    from kerncap_stages.validate.arguments import Pointer
    from kerncap_stages.validate.judgement import Judgement
    from kerncap_stages.validate.perturb.start import Start
    from kerncap_stages.validate.replayer import Run
    from kerncap_stages.validate.speculation import Speculation

NOT_RECORDED = (
    "writes were not recorded, so nobody looked for memory that the variant writes and puts back: "
    "unset KERNCAP_SOFTGPU_COUNT, if it is set"
)
NOTHING_TO_COMPARE_WITH = (
    "the captured kernel's writes were not recorded, so nobody looked for memory that the variant alone "
    "writes and puts back"
)


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
        replays.watch_writes([(base + begin, base + end) for base, begin, end in self._parts])

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
        known_outside = self._replays.run(start, None).outside if run.outside else ()
        judgement = judge_stray_writes(judgement, run, known_outside)
        if not judgement.passed:
            return judgement
        if run.writes is None and self._is_recorded and self._parts:
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
