"""Times of dispatches, and the clocks that they were measured with."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from kerncap_stages.manifests.base import Count, DurationNs, Frozen, MeanNs


class TimeSource(StrEnum):
    """The clock that a time was measured with."""

    DEVICE = "device"  # time stamps that the device wrote
    SOFTWARE_GPU = "software_gpu"  # the time of an interpreter, which says nothing about hardware
    IMPORTED = "imported"  # measured by another profiler


class TimingSummary(Frozen):
    """Statistics of repeated dispatches; ``samples_ns`` is in launch order."""

    source: TimeSource
    samples_ns: tuple[DurationNs, ...]
    min_ns: DurationNs
    median_ns: MeanNs
    mean_ns: MeanNs
    p05_ns: MeanNs
    p95_ns: MeanNs
    max_ns: DurationNs
    stddev_ns: MeanNs
    instructions: Count | None = Field(
        default=None, description="wave instructions of one dispatch, where counted (software GPU)"
    )
