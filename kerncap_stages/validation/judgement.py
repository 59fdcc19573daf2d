"""A verdict as it grows: how each part of an output came out, and what people are told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kerncap_stages.pages.formats import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.manifests.validation import Coverage, Mode
    from kerncap_stages.validation.arguments import Span
    from kerncap_stages.validation.states import RegionDifference

NOTHING_KNOWN = (
    "nothing is known to be written by the captured kernel: this dispatch changed nothing, so there is "
    "nothing to judge by; capture another one (--dispatch 0)"
)
UNREACHED_UNTRIED = (
    "memory that no pointer in sight leads to was not tried with other contents: the kernel does not run then"
)
BOUNDS_TOO_WIDE = (
    "the variant changes nothing at all, and is within the bounds only because the captured kernel changes "
    "less than they allow: narrow them, or capture a dispatch that changes more"
)


@dataclass(frozen=True)
class PartVerdict:
    """How a part of a region came out; ``changed_base``: the region that was changed beforehand."""

    region: Region
    part: Span
    found: RegionDifference
    changed_base: int | None


@dataclass
class Judgement:
    """The verdict and its evidence; ``reasons`` are for people."""

    mode: Mode
    passed: bool = True
    reasons: list[str] = field(default_factory=list)
    verdicts: list[PartVerdict] = field(default_factory=list)
    coverage: Coverage | None = None
    pre_states: int = 1
    poisoned_bytes: int = 0
    baseline_runs: int = 0
    variant_runs: int = 0
    nondeterministic_bytes: int = 0
    changes_expected: bool = False
    changes_made: bool = False  # by the variant, from any state

    @property
    def knows_writes(self) -> bool:
        """Whether anything that the captured kernel writes was compared."""
        return any(verdict.found.written_bytes for verdict in self.verdicts)

    def note(self, reason: str) -> None:
        """Say something once."""
        if reason not in self.reasons:
            self.reasons.append(reason)

    def fail(self, reason: str) -> None:
        """Note why it failed."""
        self.passed = False
        self.note(reason)


def part_name(verdict: PartVerdict) -> str:
    """What people call a part of a region."""
    where = f"region {verdict.region.base_address:#x}"
    return f"{verdict.part.label} in {where}" if verdict.part.label else where


def unreached_note(regions: Sequence[Region]) -> str:
    """What people are told of memory that was left as captured, as changing it would take too long."""
    gib = sum(region.size_bytes for region in regions) / (1 << 30)
    return (
        f"not tried with other contents: {count(len(regions), 'region')} ({gib:.1f} GiB) that no pointer in "
        "sight leads to; outputs there that hold the right values already would not be missed"
    )


def wrong_output(found: RegionDifference) -> str:
    """Why a part fails, in words: the reason that a verdict gives."""
    if found.difference.failing == found.difference.elements:
        return "an output of the captured kernel is not written, or wholly wrong"
    return "outputs differ from those of the captured kernel"
