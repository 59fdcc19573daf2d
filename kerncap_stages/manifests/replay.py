"""The replay manifest: a captured dispatch that was run again alone."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from kerncap_stages.digest import ManifestRef, MemoryRef
from kerncap_stages.manifests.base import (
    Address,
    AnyFloat,
    Count,
    DeviceIndex,
    Dim3,
    DurationNs,
    Frozen,
    Manifest,
    Remark,
    SizeBytes,
    refuse,
)
from kerncap_stages.manifests.environment import Environment
from kerncap_stages.manifests.kernel import CodeObject
from kerncap_stages.manifests.source import Unedited
from kerncap_stages.manifests.timing import Floor, TimingSummary


class ReplayOutcome(StrEnum):
    """How the replay process ended."""

    COMPLETED = "completed"
    FAULTED = "faulted"  # the device reported a fault
    CRASHED = "crashed"  # the process died
    TIMED_OUT = "timed_out"


class Overrides(Frozen):
    """Changes to the captured launch that the user asked for."""

    grid_work_items: Dim3 | None = None
    block_work_items: Dim3 | None = None
    dynamic_lds_bytes: Count | None = None


class LaunchShape(Frozen):
    """The shape of a launch that is not the captured one."""

    grid_blocks: Dim3
    block_work_items: Dim3
    dynamic_lds_bytes: Count


class ReplayPlan(Frozen):
    """How the user asked to run the replay."""

    iterations: int = Field(gt=0)
    warmup: Count
    flush_cache: bool = False
    hip_launch: bool = Field(default=False, description="launched through HIP, not by an AQL packet")
    timeout_ns: DurationNs | None = None
    overrides: Overrides = Overrides()
    variant_shape: LaunchShape | None = Field(
        default=None, description="of the variant alone; none: as the captured kernel"
    )
    devices: tuple[tuple[DeviceIndex, DeviceIndex], ...] = Field(
        default=(), description="[captured device, device of the replay], where they differ"
    )


class Comparison(Frozen):
    """Times of baseline and variant, run in turn in one process. A ratio below 1: the variant is faster."""

    baseline: TimingSummary
    ratio: AnyFloat = Field(description="median of variant / baseline over the pairs")
    ratio_p05: AnyFloat
    ratio_p95: AnyFloat
    unedited: Unedited | None = Field(
        default=None, description="comparison for the source that was found for the kernel"
    )


class OutputRegion(Frozen):
    """The contents of a region after the last iteration."""

    base_address: Address
    size_bytes: SizeBytes
    device_index: DeviceIndex | None
    post: MemoryRef


class Replay(Manifest):
    """A replay and its measurements."""

    kind: Literal["replay"] = "replay"
    schema_version: Literal[2] = 2
    capture: ManifestRef
    environment: Environment
    variant: CodeObject | None = Field(description="none: the captured code object")
    plan: ReplayPlan
    outcome: ReplayOutcome
    explanation: Remark | None = Field(default=None, description="for people: what faulted and where")
    exit_code: int | None = None
    exit_signal: int | None = Field(default=None, gt=0)
    timing: TimingSummary | None
    comparison: Comparison | None = None
    floor: Floor | None = Field(default=None, description="none: the launch is another one, or not known")
    impossible: Remark | None = Field(
        default=None, description="for people: why the variant's time cannot be true; then there are no times"
    )
    matches_golden: bool | None = Field(default=None, description="none if it was not compared")
    restored_size_bytes: SizeBytes = 0
    restore_ns: DurationNs | None = None
    outputs: tuple[OutputRegion, ...] = ()

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        completed = self.outcome is ReplayOutcome.COMPLETED
        refuse(
            not completed and self.explanation is None, "a replay that did not complete needs an explanation"
        )
        return self
