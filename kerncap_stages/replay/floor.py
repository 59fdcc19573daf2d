"""Computes what each right dispatch must do at least, and the time below which none can be.

What a dispatch changed must be written by each right variant; what it must read is not known on a GPU. Of the
changed bytes, as many as the last cache holds may stay there when the dispatch ends. The rest passes the
memory's bus, and all of them leave a compute unit:

    least time = max((changed - cache) / peak of the memory, changed / (units * 128 bytes * clock))

The reasons are in docs/decisions/0079-a-floor-under-times.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.manifests.memory import MemoryKind
from kerncap_stages.manifests.timing import Floor, TimeSource
from kerncap_stages.replay.timing import summarise
from kerncap_stages.replay.variant import find_runtime_regions
from kerncap_stages.text.formats import format_duration, format_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.manifests.timing import TimingSummary
    from kerncap_stages.replay.report import Peaks, ReplayResult

# A compute unit stores at most this much in a clock: 32 lanes of 4 bytes. No GPU so far stores more.
UNIT_BYTES_PER_CLOCK = 128
# Clocks of GPUs tick up to once a microsecond, and a time is the difference of two ticks.
CLOCK_SLACK_NS = 2000
# A device tells nominal clocks, and a card whose clocks are set higher is faster; none by as much as this.
# What works beside the clock takes far less than the least time.
IMPOSSIBLE_FACTOR = 1.25
# Memory that nobody but this GPU writes while the captured kernel runs alone.
_OWN_KINDS = frozenset(
    {
        MemoryKind.DEVICE_COARSE,
        MemoryKind.DEVICE_FINE,
        MemoryKind.DEVICE_EXTENDED_FINE,
        MemoryKind.VMEM,
        MemoryKind.ASYNC_POOL,
    }
)


def find_changed_bytes(capture: Capture) -> int | None:
    """Return how many bytes of its GPU's own memory the captured dispatch changed; None if not known."""
    if not capture.has_post:
        return None
    return sum_over_own_memory(capture, lambda region: region.written_size_bytes or 0)


def sum_over_own_memory(capture: Capture, count: Callable[[Region], int]) -> int:
    """Sum what ``count`` returns over the regions of the GPU's own memory.

    Without host memory, managed memory and memory of other processes and GPUs: others may have changed that.
    What is mapped several times counts once.
    """
    of_runtime = find_runtime_regions(capture)
    pieces: dict[int, int] = {}
    total = 0
    for region in capture.regions:
        is_own = region.device_index == capture.dispatch.device_index and region.kind in _OWN_KINDS
        if not is_own or region.base_address in of_runtime:
            continue
        counted = count(region)
        if region.physical_piece:
            pieces[region.physical_piece] = max(counted, pieces.get(region.physical_piece, 0))
        else:
            total += counted
    return total + sum(pieces.values())


def find_floor(capture: Capture, peaks: Peaks, changed: int | None = None) -> Floor | None:
    """Return the floor of a capture on a device; None if it is not known what must be written.

    changed: how many bytes must be written; None: those that the captured dispatch changed. On the software
    GPU there is no least time: it has no peak.
    """
    changed = find_changed_bytes(capture) if changed is None else changed
    if changed is None:
        return None
    units_bytes_per_s = peaks.compute_units * UNIT_BYTES_PER_CLOCK * peaks.clock_hz
    times_s = []
    if peaks.memory_bytes_per_s and peaks.cache_bytes:
        times_s.append(max(0, changed - peaks.cache_bytes) / peaks.memory_bytes_per_s)
    if units_bytes_per_s:
        times_s.append(changed / units_bytes_per_s)
    return Floor(
        changed_size_bytes=changed,
        memory_bytes_per_s=peaks.memory_bytes_per_s or None,
        cache_size_bytes=peaks.cache_bytes or None,
        units_bytes_per_s=units_bytes_per_s or None,
        least_ns=max(times_s) * 1e9 if times_s else None,
    )


def lies_below(floor: Floor | None, timing: TimingSummary | None, factor: float = 1.0) -> bool:
    """Whether ``factor`` times a median is below the floor, by more than what a clock may be wrong."""
    if floor is None or floor.least_ns is None or timing is None:
        return False
    return factor * timing.median_ns + CLOCK_SLACK_NS < floor.least_ns


def is_impossible(floor: Floor | None, timing: TimingSummary | None) -> bool:
    """Whether a median is so far below the floor that no device of this model can be so fast."""
    return lies_below(floor, timing, IMPOSSIBLE_FACTOR)


def find_impossible(
    capture: Capture, result: ReplayResult, count_changed: Callable[[], int]
) -> tuple[Floor | None, str | None]:
    """Return the floor of a variant's timed runs, and why their times cannot be true; None if they can.

    count_changed: returns how many bytes these runs changed at least. Called if a time is impossible and
    the runs did not leave the golden state: within bounds a variant need not change all of it.

    If the captured kernel's times are below the floor, too, then the device's peak or its clock is not what
    the device says, and nothing follows.
    """
    floor = find_floor(capture, result.peaks)
    baseline, variant = (
        summarise(each, TimeSource.DEVICE) for each in (result.baseline_ns, result.variant_ns)
    )
    if floor is None or variant is None or not is_impossible(floor, variant) or lies_below(floor, baseline):
        return floor, None
    if any(result.variant_states):
        floor = find_floor(capture, result.peaks, min(count_changed(), floor.changed_size_bytes))
        if floor is None or not is_impossible(floor, variant):
            return floor, None
    return floor, (
        f"impossible: {format_duration(variant.median_ns)}, but to write the "
        f"{format_size(floor.changed_size_bytes)} that it changes takes at least "
        f"{format_duration(floor.least_ns or 0.0)} on this GPU"
    )
