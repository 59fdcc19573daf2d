"""Writes the result of a replay as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.manifests.timing import TimeSource
from kerncap_stages.replay.floor_lines import write_floor_lines
from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerncap_stages.manifests.replay import Comparison, Overrides, Replay
    from kerncap_stages.manifests.timing import TimingSummary
    from kerncap_stages.replay.report import ReplayResult, WrongRuns

_MAX_MISMATCHES = 8


def write_result_lines(made: Replay, result: ReplayResult, within: str | None = None) -> Iterator[str]:
    """Yield the lines that describe a replay's result.

    within: how it is known that a variant's other results are right; None: they are not known to be.
    """
    if made.outcome is not ReplayOutcome.COMPLETED:
        yield f"the replay {made.outcome.value.replace('_', ' ')}: {made.explanation}"
        return
    if result.wrong_runs is not None:
        yield from _describe_wrong_runs(result.wrong_runs)
    if made.timing is not None:
        timing = made.timing
        if made.comparison is None:
            yield _describe_times(timing)
        else:
            yield f"baseline, the captured kernel: {_describe_times(made.comparison.baseline)}"
            yield f"variant: {_describe_times(timing)}"
        if timing.instructions is not None:
            yield _describe_instructions(timing.instructions, made.comparison)
    if made.comparison is not None:
        ratio = made.comparison
        yield _describe_ratio(ratio)
        if ratio.unedited is not None:
            yield f"same instructions before any edit: {formats.describe_same_instructions(ratio.unedited)}"
    yield from write_floor_lines(made)
    if made.matches_golden is True:
        yield f"{formats.format_size(result.compared_size_bytes)} are the same as after the captured dispatch"
    elif made.matches_golden is False:
        if within is None:
            yield "NOT the same as after the captured dispatch:"
        else:
            yield f"{within}, though not the same bytes as after the captured dispatch:"
        for part in result.mismatches[:_MAX_MISMATCHES]:
            name = part.name or f"region {part.base_address:#x}"
            yield (
                f"  {name}: {formats.count(part.size_bytes, 'byte')} differ, "
                f"the first at +{part.first_offset_bytes:#x}"
            )
        if len(result.mismatches) > _MAX_MISMATCHES:
            yield f"  and {len(result.mismatches) - _MAX_MISMATCHES} more regions"
        if made.variant is None:
            yield "  next: `kc-validate` of the capture shows whether the kernel is deterministic"
    else:
        yield f"not compared: there is no golden state for this launch{_describe_shape(made.plan.overrides)}"
    if made.plan.variant_shape is not None:
        yield formats.tell_variant_shape(made.plan.variant_shape)
    for note in (*result.notes, *result.without):
        yield f"note: {note}"


def _describe_times(timing: TimingSummary) -> str:
    median, shortest, longest = map(formats.format_duration, (timing.median_ns, timing.p05_ns, timing.p95_ns))
    text = f"{formats.count(len(timing.samples_ns), 'run')}, median {median}"
    if len(timing.samples_ns) > 1:
        text += f", 5 to 95 %: {shortest} to {longest}"
    if timing.source is TimeSource.SOFTWARE_GPU:
        text += " (on the software GPU: says nothing about hardware)"
    return text


def _describe_ratio(found: Comparison) -> str:
    pairs = len(found.baseline.samples_ns)
    spread = (
        f"median of {pairs:,} pairs of runs, 5 to 95 %: {found.ratio_p05:.3f} to {found.ratio_p95:.3f}"
        if pairs > 1
        else "one pair of runs, which does not show how much times vary: give --iterations 20"
    )
    where = ""
    if found.baseline.source is TimeSource.SOFTWARE_GPU:
        where = " in times on the software GPU, which say nothing about hardware"
    return f"variant / baseline: {found.ratio:.3f} ({spread}){where}"


def _describe_wrong_runs(found: WrongRuns) -> Iterator[str]:
    if found.wrong:
        yield f"wrong in {found.wrong} of {formats.count(found.runs, 'timed run')}, so no times are shown"
    else:
        yield (
            f"{found.unknown} of {formats.count(found.runs, 'timed run')} could not be judged, so no times "
            "are shown: too many runs left different memory"
        )
    for reason in found.reasons:
        yield f"  {reason}"
    yield "  next: `kc-validate` of the variant, with the bounds within which it is right"


def _describe_shape(overrides: Overrides) -> str:
    """Describe the shape that replaced the captured one, with the unit of each number."""
    parts = []
    if overrides.grid_work_items is not None:
        parts.append(f"{formats.format_shape(overrides.grid_work_items)} work-items")
    if overrides.block_work_items is not None:
        parts.append(f"{formats.format_shape(overrides.block_work_items)} in a work-group")
    return f", of {', '.join(parts)}" if parts else ""


def _describe_instructions(counted: int, comparison: Comparison | None) -> str:
    """Describe the instructions that the software GPU counted, and their ratio if there is a comparison."""
    before = None if comparison is None else comparison.baseline.instructions
    if not before:
        return formats.count(counted, "wave instruction")
    return (
        f"wave instructions, variant / baseline: {counted / before:.3f} ({counted:,} of {before:,}; "
        "counted by the software GPU, not a ratio of times)"
    )
