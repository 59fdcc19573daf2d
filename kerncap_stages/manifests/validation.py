"""The validation manifest: whether a variant gives the same outputs as the baseline."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field

from kerncap_stages.digest import Digest, FileRef, KeptRef, ManifestRef, MemoryRef
from kerncap_stages.manifests.base import (
    Address,
    AnyFloat,
    ByteRange,
    Count,
    DeviceIndex,
    Frozen,
    Manifest,
    RelativePath,
    Remark,
    Share,
    SizeBytes,
)
from kerncap_stages.manifests.environment import Environment
from kerncap_stages.manifests.kernel import CodeObject
from kerncap_stages.manifests.replay import LaunchShape, ReplayOutcome
from kerncap_stages.manifests.source import Unedited


class Mode(StrEnum):
    """What was compared with what."""

    SMOKE = "smoke"  # nothing, without a golden state: the baseline only had to complete
    BASELINE = "baseline"  # the baseline against the golden post-state
    BYTE_EXACT = "byte_exact"
    NUMERIC = "numeric"


class ElementType(StrEnum):
    """The type of number that the bytes of a region are read as."""

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
    """Bounds of a numeric comparison; a bound of none is not used."""

    absolute: AnyFloat | None = None
    relative: AnyFloat | None = None
    ulp: Count | None = None


class WorstElement(Frozen):
    """The element with the largest error."""

    address: Address
    offset_bytes: SizeBytes
    expected: str
    actual: str


class RegionResult(Frozen):
    """The comparison of a region's write set, or of a part of the region whose elements have one type."""

    added: ClassVar[frozenset[str]] = frozenset({"start"})

    name: str = Field(description="for people: the kernel argument or symbol that leads there, if known")
    base_address: Address
    offset_bytes: SizeBytes = Field(default=0, description="offset of the part in the region")
    size_bytes: SizeBytes | None = Field(default=None, description="size of the part")
    changed_region: Address | None = Field(
        default=None, description="the region whose pre-state was perturbed; none: the captured pre-state"
    )
    start: Remark | None = Field(
        default=None, description="for people: the values of the inputs, if they were fresh ones"
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
    rms_error: AnyFloat | None = Field(default=None, description="root mean square; of floats only")
    worst_share: AnyFloat | None = Field(
        default=None, description="the worst element's error in parts of what the bounds allow"
    )
    worst: WorstElement | None = None
    heat: tuple[Count, ...] = Field(
        default=(), description="differing bytes in each of equal parts of the region; empty if none differ"
    )


class ErrorSize(Frozen):
    """The size of a kernel's errors against true values."""

    max_absolute: AnyFloat
    rms: AnyFloat = Field(description="root mean square")


class OutputPrecision(Frozen):
    """The errors of both kernels in an output, in one state."""

    name: str = Field(description="for people: the kernel argument")
    element_type: ElementType
    fresh_values: bool = Field(description="inputs had fresh values; else the captured ones")
    passed: bool
    elements: Count
    unusable_elements: Count = Field(description="left out: the captured kernel made no finite number")
    captured: ErrorSize = Field(description="errors of the captured kernel")
    variant: ErrorSize = Field(description="errors of the variant")
    captured_ulp: AnyFloat = Field(description="root mean square of the captured kernel's errors in ULP")
    allowed_share: AnyFloat = Field(
        description="the variant's error in parts of what is allowed, among the elements for which that is "
        "most; above 1 it fails"
    )
    factor: AnyFloat = Field(description="how many times the captured kernel's RMS error is allowed there")
    worst_address: Address = Field(description="of the variant's largest error")
    worst_true: AnyFloat
    worst_actual: AnyFloat


class Precision(Frozen):
    """A judgement of precision against true outputs, which the user's reference computed."""

    file_name: str = Field(description="as the user gave it")
    file: FileRef = Field(description="the reference: its digest is the file's SHA-256")
    outputs: tuple[OutputPrecision, ...]


class StrayWrite(Frozen):
    """Bytes outside the write set that the variant changed."""

    base_address: Address
    ranges: tuple[ByteRange, ...]
    size_bytes: SizeBytes


class OutputState(Frozen):
    """The contents of a region after a replay; only for regions that the replay changed."""

    base_address: Address
    post: KeptRef | MemoryRef


class PerturbedState(Frozen):
    """The contents of a region from which a replay started, if it is one of several perturbed ones."""

    base_address: Address
    pre: KeptRef | MemoryRef


class BaselineReplay(Frozen):
    """A replay of the captured kernel that the verdict used; later validations reuse it."""

    added: ClassVar[frozenset[str]] = frozenset({"perturbed"})
    key: Digest = Field(description="digest of the capture, perturbed pre-state, machine and replayer")
    changed_region: Address | None
    pre: KeptRef | MemoryRef | None = Field(description="the perturbed pre-state of that region")
    outcome: ReplayOutcome
    explanation: Remark | None = None
    outputs: tuple[OutputState, ...]
    perturbed: tuple[PerturbedState, ...] | None = Field(
        default=None, description="the pre-states of several regions that were perturbed together"
    )
    opened: tuple[ByteRange, ...] = Field(
        default=(),
        description="of a guarded replay: address and length of what could be written beside the write set",
    )

    @property
    def changed(self) -> dict[int, MemoryRef]:
        """The states of the regions that the kernel changed, by base address."""
        return {state.base_address: MemoryRef.to(state.post.digest) for state in self.outputs}

    @property
    def pre_state(self) -> MemoryRef | None:
        """The perturbed pre-state of the region ``changed_region``."""
        return None if self.pre is None else MemoryRef.to(self.pre.digest)

    @property
    def pre_states(self) -> dict[int, MemoryRef]:
        """The perturbed pre-states of one region or of several, by base address."""
        found = {state.base_address: MemoryRef.to(state.pre.digest) for state in self.perturbed or ()}
        if self.changed_region is not None and self.pre is not None:
            found[self.changed_region] = MemoryRef.to(self.pre.digest)
        return found


class Guard(Frozen):
    """Guarded runs of the variant: memory that the captured kernel does not write could not be written."""

    size_bytes: SizeBytes = Field(description="of the captured data")
    guarded_size_bytes: SizeBytes = Field(description="in whole pages, which may hold more than that data")
    runs: Count = Field(description="from the captured pre-state")
    fresh_runs: Count = Field(description="from fresh values of the inputs")
    opened: tuple[ByteRange, ...] = Field(
        default=(),
        description="address and length of what was not guarded because the captured kernel writes there, "
        "beside its write set",
    )
    failure: Remark | None = Field(default=None, description="why there were no more guarded runs")


class GivenBounds(Frozen):
    """Bounds as the user gave them; one of none was not given."""

    atol: AnyFloat | None
    rtol: AnyFloat | None
    ulp: Count | None


class JudgeOptions(Frozen):
    """All options that a verdict depends on, as they were given: the members of ``JudgeSettings``."""

    bounds: GivenBounds
    default_type: ElementType | None = Field(description="of all outputs; none: those of the arguments")
    timeout_s: float = Field(ge=0, allow_inf_nan=False)
    baseline_runs: Count = Field(description="of the captured kernel, if there is no variant")
    perturb: bool = Field(description="false: `--quick`")
    variant_runs: Count | None = Field(description="none: as many as fit in a short time")
    fresh_values: bool = Field(description="false: `--captured-values`")
    seed: Count | None = Field(description="none: a random one")
    reference: Digest | None = Field(description="SHA-256 of the reference file")


class BuiltFile(Frozen):
    """A file of a project that a build read."""

    path: RelativePath
    digest: Digest = Field(description="SHA-256 of the file at the time of the build")


class Coverage(StrEnum):
    """How the bytes that the baseline writes were found."""

    PERTURBED = "perturbed"  # from replays with perturbed pre-states
    DIFFERENCE = "difference"  # only from the difference between pre-state and post-state


class Validation(Manifest):
    """The verdict and its evidence."""

    added: ClassVar[frozenset[str]] = frozenset(
        {"built_from", "fresh_states", "inputs_kept", "judge_code", "options"}
    )

    kind: Literal["validation"] = "validation"
    schema_version: Literal[2] = 2
    capture: ManifestRef
    reproducer: ManifestRef | None = Field(default=None, description="the project that was validated")
    environment: Environment
    judge_code: Digest | None = Field(
        default=None,
        description="digest of the package's code that made this verdict; none: not recorded",
    )
    variant: CodeObject | None = Field(description="none: the baseline itself")
    built_from: tuple[BuiltFile, ...] | None = Field(
        default=None,
        description="of a variant that make built in the project: what it read, as it recorded that",
    )
    options: JudgeOptions | None = Field(default=None, description="none: not recorded")
    variant_shape: LaunchShape | None = Field(default=None, description="none: as the captured kernel")
    unedited: Unedited | None = Field(
        default=None, description="comparison for the source that was found for the kernel"
    )
    mode: Mode
    tolerance: Tolerance | None = None
    coverage: Coverage | None = None
    passed: bool
    reasons: tuple[Remark, ...] = Field(default=(), description="for people: why it failed, or remarks")
    regions: tuple[RegionResult, ...]
    stray_writes: tuple[StrayWrite, ...] = ()
    pre_states: Count = Field(default=1, description="different pre-states that were compared")
    fresh_states: Count | None = Field(
        default=None, description="how many of them have fresh values of the inputs; none: not recorded"
    )
    inputs_kept: bool | None = Field(
        default=None,
        description="whether all inputs kept their captured values although fresh ones were wanted: "
        "`reasons` says why; none: not recorded",
    )
    poisoned_size_bytes: SizeBytes = Field(
        default=0, description="bytes of outputs that were perturbed before the run"
    )
    seed: Count | None = Field(
        default=None, description="seed of the inputs' fresh values; none: inputs had the captured values"
    )
    baseline_runs: Count = Field(
        default=0, description="replays of the baseline that looked for nondeterminism"
    )
    variant_runs: Count = Field(default=0, description="replays of the variant from the captured pre-state")
    nondeterministic_share: Share = Field(default=0.0, description="share of the write set's bytes")
    baselines: tuple[BaselineReplay, ...] = ()
    guard: Guard | None = Field(
        default=None, description="none: writes were looked for otherwise, or not at all"
    )
    precision: Precision | None = Field(
        default=None, description="none: precision was judged against the captured kernel only"
    )
