"""The machine and the program of a run."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from kerncap_stages.digest import Digest
from kerncap_stages.manifests.base import Count, DeviceIndex, Frozen, OsText, SizeBytes, UtcTime


class Backend(StrEnum):
    """The GPU API that launched a dispatch, and that replays it."""

    HSA = "hsa"
    CUDA = "cuda"


class Device(Frozen):
    """A GPU as its runtime describes it."""

    index: DeviceIndex = Field(description="position among the GPUs that the program saw")
    name: str = Field(description="marketing name")
    architecture: str = Field(description="what a code object must fit: `gfx90a`, `sm_90`")
    target: str = Field(description="architecture with its features: `gfx90a:sramecc+:xnack-`, `sm_90a`")
    isa: str = Field(
        min_length=1, description="the runtime's full name: `amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-`"
    )
    uuid: str | None = None
    pci_address: str | None = Field(default=None, description="domain:bus:device.function")
    memory_size_bytes: SizeBytes
    compute_units: Count = Field(description="compute units, or streaming multiprocessors")
    wavefront_size: int = Field(gt=0, le=128, description="lanes of a wavefront, or of a warp")
    xnack: bool | None = Field(default=None, description="page faults are retried; none if unknown")
    sramecc: bool | None = None
    software: bool = Field(default=False, description="the software GPU: its times are not a GPU's")


class Environment(Frozen):
    """The machine at the time of the run. A replay on a machine that does not match can be refused."""

    recorded_at: UtcTime
    backend: Backend
    operating_system: str
    kernel_release: str
    driver_version: str | None = Field(
        default=None, description="version of the amdgpu or NVIDIA kernel driver"
    )
    runtime_version: str | None = Field(
        default=None, description="version of ROCr, or of the CUDA driver API"
    )
    toolkit_version: str | None = Field(
        default=None, description="version of the ROCm or CUDA release, if known"
    )
    devices: tuple[Device, ...]


class Program(Frozen):
    """The program that was run, with all that is needed to run it again the same way."""

    command: tuple[OsText, ...] = Field(min_length=1)
    working_directory: OsText
    environment: dict[str, OsText] = Field(
        default_factory=dict,
        description="the variables that affect the GPU, and those that the user asked to record",
    )
    executable: Digest | None = Field(default=None, description="SHA-256 of the executable, not stored")
    exit_code: int | None = None
    exit_signal: int | None = Field(default=None, gt=0, description="the signal that ended it")


def unquote_version(text: str | None) -> str | None:
    """Return ROCr's version without the quotation marks that Debian's build puts around it."""
    return (text or "").strip('"') or None
