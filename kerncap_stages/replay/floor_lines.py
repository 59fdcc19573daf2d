"""Writes what a dispatch must do at least, beside its time, as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.replay.floor import lies_below
from kerncap_stages.text.formats import format_duration, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerncap_stages.manifests.replay import Replay
    from kerncap_stages.manifests.timing import Floor, TimingSummary, Work

_NOT_KNOWN = "what must be read is not known on a GPU"


def write_floor_lines(made: Replay) -> Iterator[str]:
    """Yield what the timed kernel must do at least, and how far its time is from that."""
    if made.impossible is not None:
        yield f"{made.impossible}, so no times are shown"
        yield "  next: the variant may work outside of what is timed, or the GPU's clock is wrong"
        return
    timing, floor = made.timing, made.floor
    if timing is None or floor is None:
        return
    if timing.work is not None:
        baseline = made.comparison.baseline.work if made.comparison is not None else None
        yield from _describe_work(floor, timing.work, timing.instructions or 0, baseline)
    elif floor.least_ns:
        yield _describe_time(floor, timing)
        if made.comparison is not None and lies_below(floor, made.comparison.baseline):
            yield "  the captured kernel is faster, too, so this GPU's peak or its clock is not what it says"
        elif lies_below(floor, timing):
            yield "  it is faster than that, so this GPU's memory or its clock may be faster than it says"


def _describe_time(floor: Floor, timing: TimingSummary) -> str:
    least_ns = floor.least_ns or 0.0
    text = f"floor: {format_size(floor.changed_size_bytes)} must be written, which takes at least "
    text += f"{format_duration(least_ns)}: the kernel takes {timing.median_ns / least_ns:.3g} times that"
    peak, cache = floor.memory_bytes_per_s, floor.cache_size_bytes
    if peak is None or cache is None:
        return f"{text}; the memory's peak and {_NOT_KNOWN}"
    if floor.changed_size_bytes <= cache:
        return f"{text} (a cache of {format_size(cache)} may hold it all); {_NOT_KNOWN}"
    share = floor.changed_size_bytes / peak * 1e9 / timing.median_ns if timing.median_ns else 0.0
    return (
        f"{text}; writes alone are {100 * share:.0f} % of the memory's peak of {peak / 1e9:,.0f} GB/s; "
        f"{_NOT_KNOWN}"
    )


def _describe_work(floor: Floor, work: Work, instructions: int, baseline: Work | None) -> Iterator[str]:
    read, written = format_size(work.read_size_bytes), format_size(work.written_size_bytes)
    if baseline is None:
        yield f"captured memory: {read} read, {written} written"
    else:
        yield (
            f"captured memory, variant / baseline: {read} / {format_size(baseline.read_size_bytes)} read, "
            f"{written} / {format_size(baseline.written_size_bytes)} written"
        )
    share = f" ({100 * work.memory_instructions / instructions:.0f} %)" if instructions else ""
    least = f"{format_size(floor.changed_size_bytes)} must be written"
    if not floor.changed_size_bytes:
        least = "none is known, because the captured dispatch changed no memory that only it writes"
    yield (
        f"floor: {least}; "
        f"{work.memory_instructions:,} of {instructions:,} wave instructions{share} access memory"
    )
