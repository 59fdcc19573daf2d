"""Times of dispatches, and where they come from."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from kerncap_stages.manifests.base import Count, DurationNs, Frozen, MeanNs


class TimeSource(StrEnum):
    """Every time says what clock it came from."""

    DEVICE = "device"  # time stamps that the device wrote
    SOFTWARE_GPU = "software_gpu"  # of an interpreter: says nothing about hardware
    IMPORTED = "imported"  # another profiler's figures


class TimingSummary(Frozen):
    """Statistics of repeated dispatches; ``samples_ns`` in the order of launch."""

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
