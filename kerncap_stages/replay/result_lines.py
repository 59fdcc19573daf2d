"""What a replay came to, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.manifests.timing import TimeSource
from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerncap_stages.manifests.replay import Comparison, Overrides, Replay
    from kerncap_stages.replay.report import ReplayResult

_LONGEST_MISMATCH_LIST = 8


def result_lines(made: Replay, result: ReplayResult) -> Iterator[str]:
    """What people are told of a replay."""
    if made.outcome is not ReplayOutcome.COMPLETED:
        yield f"the replay {made.outcome.value.replace('_', ' ')}: {made.explanation}"
        return
    if made.timing is not None:
        timing = made.timing
        text = f"{formats.count(len(timing.samples_ns), 'run')}, median {formats.duration(timing.median_ns)}"
        if len(timing.samples_ns) > 1:
            text += f", 5 to 95 %: {formats.duration(timing.p05_ns)} to {formats.duration(timing.p95_ns)}"
        if timing.source is TimeSource.SOFTWARE_GPU:
            text += " (of the software GPU: says nothing about hardware)"
        yield text
        if timing.instructions is not None:
            yield _instructions(timing.instructions, made.comparison)
    if made.comparison is not None:
        ratio = made.comparison
        yield (
            f"variant / baseline: {ratio.ratio:.3f} "
            f"(5 to 95 %: {ratio.ratio_p05:.3f} to {ratio.ratio_p95:.3f})"
            + (" in times of the software GPU" if ratio.baseline.source is TimeSource.SOFTWARE_GPU else "")
        )
        if ratio.unedited is not None:
            yield f"same instructions before any edit: {formats.same_instructions(ratio.unedited)}"
    if made.matches_golden is True:
        yield f"{formats.size(result.compared_size_bytes)} are as they were after the captured dispatch"
    elif made.matches_golden is False:
        yield "NOT as after the captured dispatch:"
        for part in result.mismatches[:_LONGEST_MISMATCH_LIST]:
            name = part.name or f"region {part.base_address:#x}"
            yield (
                f"  {name}: {formats.count(part.size_bytes, 'byte')} differ, "
                f"the first at +{part.first_offset_bytes:#x}"
            )
        if len(result.mismatches) > _LONGEST_MISMATCH_LIST:
            yield f"  and {len(result.mismatches) - _LONGEST_MISMATCH_LIST} more regions"
        if made.variant is None:
            yield "  next: `kc-validate` of the capture tells whether the kernel is deterministic"
    else:
        yield f"not compared: there is no golden state for this launch{_shape(made.plan.overrides)}"
    for note in result.notes:
        yield f"note: {note}"


def _shape(overrides: Overrides) -> str:
    """What was asked for instead of the captured shape, in words that tell which unit it was taken in."""
    parts = []
    if overrides.grid_work_items is not None:
        parts.append(f"{formats.shape(overrides.grid_work_items)} work-items")
    if overrides.block_work_items is not None:
        parts.append(f"{formats.shape(overrides.block_work_items)} in a work-group")
    return f", of {', '.join(parts)}" if parts else ""


def _instructions(counted: int, comparison: Comparison | None) -> str:
    """What the software GPU counted: its ratio is a fact about the code, and no ratio of times."""
    before = None if comparison is None else comparison.baseline.instructions
    if not before:
        return formats.count(counted, "wave instruction")
    return (
        f"wave instructions, variant / baseline: {counted / before:.3f} ({counted:,} of {before:,}; "
        "counted by the software GPU, not a ratio of times)"
    )
