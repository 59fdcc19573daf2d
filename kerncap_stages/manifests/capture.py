"""The capture manifest: one dispatch with all memory that it could reach, before and after it."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from kerncap_stages.digest import Digest
from kerncap_stages.manifests.base import (
    Address,
    Count,
    DeviceIndex,
    Dim3,
    DurationNs,
    Frozen,
    HexBytes,
    Manifest,
    SizeBytes,
    refuse,
)
from kerncap_stages.manifests.environment import Backend, Device, Environment, Program
from kerncap_stages.manifests.kernel import Kernel, Launch
from kerncap_stages.manifests.memory import (
    LoadedCodeObject,
    ModuleVariable,
    Region,
    check_ascending,
    check_places,
)
from kerncap_stages.manifests.timing import TimeSource


class NameMatch(StrEnum):
    """How a pattern is compared with a kernel's name."""

    ANY = "any"
    SUBSTRING = "substring"
    EXACT = "exact"
    REGEX = "regex"
    MANGLED = "mangled"


class Case(Frozen):
    """A launch shape of a kernel, and what a profile measured of it."""

    grid_blocks: Dim3
    block_work_items: Dim3
    calls: int = Field(gt=0)
    total_ns: DurationNs


class Selection(Frozen):
    """Which dispatches the user asked for; ``dispatch`` counts those that match, from 0."""

    match: NameMatch
    pattern: str | None = None
    dispatch: Count = 0
    count: int = Field(default=1, gt=0)
    every: int = Field(default=1, gt=0)
    grid_blocks: Dim3 | None = None
    block_work_items: Dim3 | None = None
    by_case: bool = Field(default=False, description="the first dispatch of each of `count` launch shapes")
    cases: tuple[Case, ...] = Field(
        default=(),
        description="with by_case: what a profile measured of this dispatch's shape; empty: no profile",
    )


class Dispatch(Frozen):
    """Which dispatch of the run this is, and the process, device and queue that ran it."""

    run_id: str = Field(pattern=r"^[0-9a-f]{32}$", description="the same for all captures of one run")
    process_id: int = Field(gt=0)
    rank: Count | None = Field(default=None, description="rank of an MPI or torchrun process")
    index_in_process: Count = Field(description="among all dispatches of the process, from 0")
    index_of_kernel: Count = Field(description="among those that match the selection, from 0")
    device_index: DeviceIndex
    queue_index: Count = Field(description="queue or stream, numbered as the process made them")
    from_graph: bool = Field(default=False, description="launched as a node of a graph")
    duration_ns: DurationNs | None = None
    time_source: TimeSource | None = None


class Reach(StrEnum):
    """Which memory was captured."""

    ALL = "all"  # all memory that the device could reach
    REACHABLE = "reachable"  # regions that values in the kernarg, or in other captured regions, point to


class CaptureCost(Frozen):
    """The time and memory that the capture took."""

    drain_ns: DurationNs = Field(
        description="time until earlier work had completed and other queues were stopped"
    )
    pre_copy_ns: DurationNs
    post_copy_ns: DurationNs
    held_ns: DurationNs = Field(description="how long the program's queues were stopped")
    copied_size_bytes: SizeBytes
    extra_resident_bytes: SizeBytes | None = Field(
        default=None, description="peak memory of the collector and the preloaded library together"
    )


class Capture(Manifest):
    """One dispatch, ready to be replayed."""

    kind: Literal["capture"] = "capture"
    schema_version: Literal[2] = 2
    environment: Environment
    program: Program
    selection: Selection
    dispatch: Dispatch
    kernel: Kernel
    launch: Launch
    kernarg: HexBytes = Field(description="the kernarg segment, or all parameters packed by offset")
    kernarg_address: Address | None = None
    reach: Reach
    chunk_size_bytes: SizeBytes
    write_set_gap_bytes: Count = Field(
        default=0,
        description="ranges of a write set with no more bytes than this between them are listed as one",
    )
    regions: tuple[Region, ...]
    module_variables: tuple[ModuleVariable, ...]
    loaded_code_objects: tuple[LoadedCodeObject, ...]
    cost: CaptureCost

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        check_ascending(self.regions)
        refuse(
            len(self.kernarg) // 2 < self.kernel.kernarg_size_bytes,
            "kernarg is shorter than the kernel's kernarg segment",
        )
        known = [device.index for device in self.environment.devices]
        refuse(known != list(range(len(known))), "devices are not numbered 0, 1, 2 and so on")
        if self.environment.backend is Backend.CUDA:
            check_places(self.regions)
        is_aql = self.environment.backend is Backend.HSA
        refuse(is_aql and max(self.launch.grid_work_items) >= 2**32, "an AQL packet cannot hold this grid")
        used = {self.dispatch.device_index}
        for region in self.regions:
            used.update(region.accessible_from)
            if region.device_index is not None:
                used.add(region.device_index)
        used.update(variable.device_index for variable in self.module_variables)
        used.update(loaded.device_index for loaded in self.loaded_code_objects)
        refuse(not used <= set(known), f"devices {sorted(used - set(known))} are used but not described")
        return self

    @property
    def device(self) -> Device:
        """The GPU that ran the dispatch."""
        return self.environment.devices[self.dispatch.device_index]

    @property
    def code_digest(self) -> Digest:
        """SHA-256 of the code object that holds the kernel."""
        return self.kernel.code_digest

    @property
    def size_bytes(self) -> int:
        """The size of all captured memory."""
        return sum(region.size_bytes for region in self.regions)

    @property
    def has_post(self) -> bool:
        """Whether the capture holds the golden output."""
        return any(part.post is not None for part in (*self.regions, *self.module_variables))
