"""The validation manifest: whether a variant does what the baseline did."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from kerncap_stages.digest import Digest, ManifestRef, MemoryRef
from kerncap_stages.manifests.base import (
    Address,
    AnyFloat,
    ByteRange,
    Count,
    DeviceIndex,
    Frozen,
    Manifest,
    Share,
    SizeBytes,
)
from kerncap_stages.manifests.environment import Environment
from kerncap_stages.manifests.kernel import CodeObject
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.manifests.source import Unedited


class Mode(StrEnum):
    """What was compared with what."""

    SMOKE = "smoke"  # no golden state: the baseline ran to its end
    BASELINE = "baseline"  # the baseline against the golden post-state
    BYTE_EXACT = "byte_exact"
    NUMERIC = "numeric"


class ElementType(StrEnum):
    """How bytes of a region are read as numbers."""

    BYTES = "bytes"
    FP64 = "fp64"
    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8_E4M3 = "fp8_e4m3"
    FP8_E5M2 = "fp8_e5m2"
    FP8_E4M3_FNUZ = "fp8_e4m3_fnuz"
    FP8_E5M2_FNUZ = "fp8_e5m2_fnuz"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"


class Tolerance(Frozen):
    """Bounds of a numeric comparison; one that is none is not used."""

    absolute: AnyFloat | None = None
    relative: AnyFloat | None = None
    ulp: Count | None = None


class WorstElement(Frozen):
    """The element that is furthest off."""

    address: Address
    offset_bytes: SizeBytes
    expected: str
    actual: str


class RegionResult(Frozen):
    """The comparison over the write set of one region, or of a part of it whose elements are of one type."""

    name: str = Field(description="for people: the kernel argument or symbol that leads there, if known")
    base_address: Address
    offset_bytes: SizeBytes = Field(default=0, description="where the part begins in the region")
    size_bytes: SizeBytes | None = Field(default=None, description="of the part")
    changed_region: Address | None = Field(
        default=None, description="the region that was changed beforehand; none: the captured pre-state"
    )
    device_index: DeviceIndex | None
    element_type: ElementType
    passed: bool
    compared_size_bytes: SizeBytes
    differing_size_bytes: SizeBytes
    elements: Count
    elements_out_of_bounds: Count
    max_absolute_error: AnyFloat | None = None
    max_relative_error: AnyFloat | None = None
    max_ulp: Count | None = None
    nan_expected: Count = 0
    nan_actual: Count = 0
    inf_expected: Count = 0
    inf_actual: Count = 0
    worst: WorstElement | None = None
    heat: tuple[Count, ...] = Field(
        default=(), description="differing bytes in each of so many equal parts; none where nothing differs"
    )


class StrayWrite(Frozen):
    """Bytes outside the write set that the variant changed."""

    base_address: Address
    ranges: tuple[ByteRange, ...]
    size_bytes: SizeBytes


class OutputState(Frozen):
    """A region as a replay left it, where that is not as it began."""

    base_address: Address
    post: MemoryRef


class BaselineReplay(Frozen):
    """A replay of the captured kernel that a verdict rests on, kept so that the next need not repeat it."""

    key: Digest = Field(description="of capture, changed state, machine and replayer")
    changed_region: Address | None
    pre: MemoryRef | None = Field(description="what that region was changed to")
    outcome: ReplayOutcome
    explanation: str | None = None
    outputs: tuple[OutputState, ...]


class Coverage(StrEnum):
    """How the bytes that the baseline overwrites were found."""

    PERTURBED = "perturbed"  # replays from perturbed pre-states
    DIFFERENCE = "difference"  # pre-state against post-state alone


class Validation(Manifest):
    """The verdict and its evidence."""

    kind: Literal["validation"] = "validation"
    schema_version: Literal[2] = 2
    capture: ManifestRef
    reproducer: ManifestRef | None = None
    environment: Environment
    variant: CodeObject | None = Field(description="none: the baseline itself")
    unedited: Unedited | None = Field(default=None, description="of the source that was found for the kernel")
    mode: Mode
    tolerance: Tolerance | None = None
    coverage: Coverage | None = None
    passed: bool
    reasons: tuple[str, ...] = Field(default=(), description="for people: why it failed, or what to know")
    regions: tuple[RegionResult, ...]
    stray_writes: tuple[StrayWrite, ...] = ()
    pre_states: Count = Field(default=1, description="different pre-states that were compared")
    poisoned_size_bytes: SizeBytes = Field(default=0, description="outputs poisoned before the run")
    baseline_runs: Count = Field(default=0, description="replays that looked for nondeterminism")
    variant_runs: Count = Field(default=0, description="of the variant, from the captured pre-state")
    nondeterministic_share: Share = Field(default=0.0, description="of the bytes of the write set")
    baselines: tuple[BaselineReplay, ...] = ()
