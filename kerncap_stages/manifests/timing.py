"""Times of dispatches, and the clocks that they were measured with."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from kerncap_stages.manifests.base import Count, DurationNs, Frozen, MeanNs, SizeBytes


class TimeSource(StrEnum):
    """The clock that a time was measured with."""

    DEVICE = "device"  # time stamps that the device wrote
    SOFTWARE_GPU = "software_gpu"  # the time of an interpreter, which says nothing about hardware
    IMPORTED = "imported"  # measured by another profiler


class Work(Frozen):
    """What one dispatch did, as the software GPU counted it."""

    memory_instructions: Count = Field(description="loads, stores and atomics of memory; one for each wave")
    read_size_bytes: SizeBytes = Field(
        description="bytes of captured memory that it read before it wrote them, each once"
    )
    written_size_bytes: SizeBytes = Field(description="bytes of captured memory that it wrote, each once")


class Floor(Frozen):
    """What each right dispatch must do, and the time that the device needs for it at its peak."""

    changed_size_bytes: SizeBytes = Field(
        description="bytes of the GPU's own memory that the captured dispatch changed: each must write them"
    )
    memory_bytes_per_s: Count | None = Field(default=None, description="peak of the memory; none: not known")
    cache_size_bytes: SizeBytes | None = Field(
        default=None, description="size of the last cache, in which that many bytes may stay"
    )
    units_bytes_per_s: Count | None = Field(
        default=None, description="the most that all compute units can store; none: not known"
    )
    least_ns: MeanNs | None = Field(default=None, description="no right dispatch is faster; none: not known")


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
    work: Work | None = Field(default=None, description="work of one dispatch, where counted (software GPU)")
