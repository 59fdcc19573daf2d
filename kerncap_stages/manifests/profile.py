"""The profile manifest: a program's kernels, ranked by the time they took."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, Self

from pydantic import Field, model_validator

from kerncap_stages.digest import Digest
from kerncap_stages.manifests.base import Count, Dim3, DurationNs, Frozen, Manifest, MeanNs, Share, refuse
from kerncap_stages.manifests.environment import Environment, Program
from kerncap_stages.manifests.timing import TimeSource
from kerncap_stages.manifests.triton import TritonConfiguration


class LaunchShape(Frozen):
    """A shape that a kernel was launched with."""

    grid_work_items: Dim3
    grid_blocks: Dim3
    block_work_items: Dim3
    lds_bytes: Count
    calls: int = Field(gt=0)
    total_ns: DurationNs


class KernelStatistics(Frozen):
    """Statistics over all dispatches of a kernel."""

    name: str = Field(min_length=1, description="demangled name")
    mangled_name: str | None = None
    code_object: Digest | None = Field(default=None, description="SHA-256 of the code object, not stored")
    calls: int = Field(gt=0)
    total_ns: DurationNs
    mean_ns: MeanNs
    min_ns: DurationNs
    max_ns: DurationNs
    stddev_ns: MeanNs
    share: Share = Field(description="share of the GPU time of all kernels")
    launch_shapes: tuple[LaunchShape, ...] = Field(default=(), description="most frequent first")
    last_shape: Count | None = Field(
        default=None, description="index in launch_shapes of the last dispatch's shape; none if unknown"
    )
    triton: tuple[TritonConfiguration, ...] = Field(
        default=(), description="of a kernel that Triton compiled, those that ran; most time first"
    )

    @model_validator(mode="after")
    def _check_last_shape(self) -> Self:
        known = len(self.launch_shapes)
        refuse(
            self.last_shape is not None and self.last_shape >= known,
            "last_shape is no index in launch_shapes",
        )
        return self


class Profile(Manifest):
    """The kernels that ran on the GPU and their times; the kernel with the largest total comes first."""

    kind: Literal["profile"] = "profile"
    schema_version: Literal[2] = 2
    environment: Environment | None = Field(description="none if the file of another profiler does not tell")
    program: Program | None
    time_source: TimeSource
    imported_from: str | None = Field(default=None, description="the other profiler, for an imported profile")
    wall_ns: DurationNs | None = None
    processes: Count | None = Field(default=None, description="processes that dispatched a kernel")
    trials: Count = Field(
        default=0, description="dispatches with which an autotuner timed configurations; not in `kernels`"
    )
    trials_ns: DurationNs = Field(default=0, description="GPU time of these")
    kernels: tuple[KernelStatistics, ...]

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        for before, after in pairwise(self.kernels):
            refuse(before.total_ns < after.total_ns, "kernels are not in order of total_ns")
        return self
