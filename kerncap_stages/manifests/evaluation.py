"""The evaluation manifest: verdicts and times of many variants of one kernel."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from kerncap_stages.digest import Digest, FileRef, ManifestRef
from kerncap_stages.manifests.base import (
    AnyFloat,
    Count,
    Dim3,
    Frozen,
    Manifest,
    MeanNs,
    OsText,
    Remark,
    refuse,
)
from kerncap_stages.manifests.environment import Environment
from kerncap_stages.manifests.validation import Tolerance


class Outcome(StrEnum):
    """What became of a variant."""

    RIGHT = "right"  # for every case
    WRONG = "wrong"  # for at least one
    NOT_BUILT = "not_built"  # the source does not compile
    REFUSED = "refused"  # not a variant of the kernel: another signature, another GPU, no code object
    UNJUDGED = "unjudged"  # it could not be run to an end: too little memory, a failed device


class MeasuredTime(Frozen):
    """How long a variant takes, beside the captured kernel."""

    added: ClassVar[frozenset[str]] = frozenset({"least_ns"})

    ratio: AnyFloat = Field(description="variant / captured kernel: below 1 the variant is faster")
    variant_instructions: Count | None = Field(
        default=None, description="wave instructions of one dispatch (software GPU)"
    )
    captured_instructions: Count | None = None
    variant_ns: MeanNs | None = Field(default=None, description="median, by the device's clock")
    captured_ns: MeanNs | None = None
    least_ns: MeanNs | None = Field(
        default=None, description="no right dispatch is faster on this GPU; none: not known"
    )
    device: str | None = Field(default=None, description="the GPU's name and target; none: the software GPU")


class CaseResult(Frozen):
    """A variant, judged on one capture."""

    verdict: ManifestRef | None = Field(description="none: there is no verdict")
    passed: bool | None
    time: MeasuredTime | None = Field(default=None, description="none: the variant is wrong, or not timed")
    machine: Digest | None = Field(
        default=None, description="where it was judged; none: on the evaluation's machine"
    )
    own_process: bool = Field(
        default=True, description="false: other variants had run in a process that judged or timed it"
    )


class OwnLaunch(Frozen):
    """How a variant asks to be launched; what is none is as captured."""

    grid_blocks: Dim3 | None = None
    block_work_items: Dim3 | None = None
    dynamic_lds_bytes: Count | None = None


class EvaluatedVariant(Frozen):
    """One variant, in the order in which the user gave them."""

    name: OsText = Field(description="its path, or the name that the user gave it")
    outcome: Outcome
    code: FileRef | None = Field(description="the file that was judged; none if it was not stored")
    code_digest: Digest | None = Field(description="SHA-256 of that file")
    launch: OwnLaunch | None = Field(default=None, description="none: as captured")
    source_digest: Digest | None = Field(default=None, description="of the source that it was built from")
    flags: tuple[OsText, ...] = Field(default=(), description="with which the source was compiled")
    cases: tuple[CaseResult, ...] = Field(description="one for each capture, in their order")
    ratio: AnyFloat | None = Field(description="of times, over all cases; none: wrong, or not timed")
    rank: int | None = Field(default=None, gt=0, description="among the right ones; 1 is the fastest")
    same_as: Count | None = Field(
        default=None, description="number, from 0 on, of the first variant with the same code and launch"
    )
    reasons: tuple[Remark, ...] = Field(default=(), description="for people: why it is not right, or remarks")

    @property
    def devices(self) -> frozenset[str]:
        """The kinds of GPUs that its times are from."""
        times = [each.time for each in self.cases if each.time is not None]
        return frozenset(each.device for each in times if each.device is not None)


class EvaluatedCase(Frozen):
    """A capture that the variants were judged on. ``weight``: its share in ratios of times."""

    added: ClassVar[frozenset[str]] = frozenset({"calls"})

    capture: ManifestRef
    launch: str = Field(description="for people; empty if there is one case")
    weight: AnyFloat | None = Field(description="its time in the profile, in ns; none if not known")
    calls: Count | None = Field(
        default=None, description="its dispatches in the profile, which weigh instructions; none if not known"
    )
    held_out: bool = False


class Evaluation(Manifest):
    """Verdicts and times of variants of one kernel."""

    kind: Literal["evaluation"] = "evaluation"
    schema_version: Literal[1] = 1
    kernel_name: str
    cases: tuple[EvaluatedCase, ...] = Field(min_length=1)
    environment: Environment
    machine: Digest = Field(
        description="stands for device, driver and the installed package: times compare within one"
    )
    tolerance: Tolerance | None = None
    complete: bool = Field(description="false: interrupted before all variants were judged")
    variants: tuple[EvaluatedVariant, ...]

    @property
    def devices(self) -> tuple[str, ...]:
        """The kinds of GPUs that times are from."""
        return tuple(sorted({device for each in self.variants for device in each.devices}))

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        refuse(
            any(len(each.cases) not in (0, len(self.cases)) for each in self.variants),
            "a variant needs a result for each case, or none",
        )
        refuse(
            any(each.same_as is not None and each.same_as >= len(self.variants) for each in self.variants),
            "a variant is the same as one that is not there",
        )
        return self
