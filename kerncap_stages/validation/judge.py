"""The verdict: whether a variant does what the baseline did, from the captured state and from others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kerncap_stages.comparison import Bounds
from kerncap_stages.manifests.validation import Coverage, Mode
from kerncap_stages.validation.perturb import MOST_REGIONS, candidate_regions, perturbed, with_pre_state
from kerncap_stages.validation.runs import Run, run_once
from kerncap_stages.validation.states import RegionDifference, States, compare_states

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.store import Store


@dataclass(frozen=True)
class Settings:
    """How to compare. ``element_types``: by the base address of a region; ``bytes`` elsewhere."""

    bounds: Bounds = field(default_factory=Bounds)
    element_types: Mapping[int, str] = field(default_factory=dict)
    default_type: str = "bytes"
    timeout_s: float = 300.0
    baseline_runs: int = 2
    perturb: bool = True

    def type_of(self, region: Region) -> str:
        """The element type of a region."""
        return self.element_types.get(region.base_address, self.default_type)


@dataclass(frozen=True)
class RegionVerdict:
    """How one region came out, in the captured state or in the one where ``perturbed_base`` was changed."""

    region: Region
    element_type: str
    found: RegionDifference
    perturbed_base: int | None


@dataclass
class Judgement:
    """The verdict and its evidence; ``reasons`` are for people."""

    mode: Mode
    passed: bool = True
    reasons: list[str] = field(default_factory=list)
    verdicts: list[RegionVerdict] = field(default_factory=list)
    coverage: Coverage | None = None
    pre_states: int = 1
    poisoned_bytes: int = 0
    baseline_runs: int = 0
    nondeterministic_bytes: int = 0

    def fail(self, reason: str) -> None:
        """Note why it failed."""
        self.passed = False
        if reason not in self.reasons:
            self.reasons.append(reason)


def judge(store: Store, capture: Capture, variant: Path | None, settings: Settings) -> Judgement:
    """Compare a variant, or the baseline itself, with what the captured dispatch did.

    Raises what keeps a replay from being run at all; a kernel that faults or hangs is a failed verdict.
    """
    if variant is None:
        return _judge_baseline(store, capture, settings)
    judgement = Judgement(Mode.BYTE_EXACT if settings.bounds.exact else Mode.NUMERIC)
    run = run_once(store, capture, variant, settings.timeout_s)
    if not run.completed:
        judgement.fail(f"the variant {run.result.outcome.value.replace('_', ' ')}: {run.result.explanation}")
        return judgement
    golden = _golden(capture)
    judgement.coverage = Coverage.DIFFERENCE
    if golden is None:
        # A capture without a post-state: what the baseline does now stands in for it.
        baseline = run_once(store, capture, None, settings.timeout_s)
        if not baseline.completed:
            judgement.fail(f"the baseline does not replay: {baseline.result.explanation}")
            return judgement
        golden = dict(baseline.outputs)
    _compare(store, capture, golden, run, settings, judgement, None)
    if judgement.passed and settings.perturb:
        _judge_perturbed(store, capture, variant, settings, judgement)
    return judgement


def _golden(capture: Capture) -> dict[int, MemoryRef] | None:
    if not capture.has_post:
        return None
    return {region.base_address: region.post for region in capture.regions if region.post is not None}


def _judge_baseline(store: Store, capture: Capture, settings: Settings) -> Judgement:
    golden = _golden(capture)
    judgement = Judgement(Mode.SMOKE if golden is None else Mode.BASELINE)
    outputs: list[Run] = []
    for _ in range(max(1, settings.baseline_runs)):
        run = run_once(store, capture, None, settings.timeout_s)
        judgement.baseline_runs += 1
        if not run.completed:
            judgement.fail(
                f"the baseline {run.result.outcome.value.replace('_', ' ')}: {run.result.explanation}"
            )
            return judgement
        outputs.append(run)
    judgement.nondeterministic_bytes = _spread(store, capture, outputs)
    if judgement.nondeterministic_bytes:
        judgement.reasons.append(
            f"not deterministic: {judgement.nondeterministic_bytes} bytes differ between replays"
        )
    if golden is not None:
        judgement.coverage = Coverage.DIFFERENCE
        _compare(store, capture, golden, outputs[0], settings, judgement, None)
    return judgement


def _spread(store: Store, capture: Capture, runs: list[Run]) -> int:
    from kerncap_stages.validation.states import changed_bytes

    first, *others = runs
    return sum(
        changed_bytes(store, first.outputs[region.base_address], other.outputs[region.base_address])
        for other in others
        for region in capture.regions
        if region.base_address in first.outputs and region.base_address in other.outputs
    )


def _compare(
    store: Store,
    capture: Capture,
    expected: Mapping[int, MemoryRef],
    run: Run,
    settings: Settings,
    judgement: Judgement,
    perturbed_base: int | None,
) -> None:
    for region in capture.regions:
        base = region.base_address
        if region.pre is None or base not in expected or base not in run.outputs:
            continue
        states = States(region.pre, expected[base], run.outputs[base], region.size_bytes)
        found = compare_states(store, states, settings.type_of(region), settings.bounds)
        if not (found.written_bytes or found.differing_bytes or found.stray_bytes):
            continue
        judgement.verdicts.append(RegionVerdict(region, settings.type_of(region), found, perturbed_base))
        if not found.difference.passed:
            judgement.fail(_wrong_output(found))
        if found.stray_bytes:
            judgement.fail("the variant writes where the captured kernel does not")


def _wrong_output(found: RegionDifference) -> str:
    if found.difference.failing == found.difference.elements:
        return "an output of the captured kernel is not written, or wholly wrong"
    return "outputs differ from those of the captured kernel"


def _judge_perturbed(
    store: Store, capture: Capture, variant: Path, settings: Settings, judgement: Judgement
) -> None:
    regions = candidate_regions(capture)
    if len(regions) > MOST_REGIONS:
        judgement.reasons.append(
            f"only {MOST_REGIONS} of {len(regions)} regions were tried with other contents"
        )
    tried = 0
    for region in regions[:MOST_REGIONS]:
        changed, baseline = _perturbed_baseline(store, capture, region, settings)
        if changed is None or baseline is None:
            continue
        tried += 1
        start = next(each.pre for each in changed.regions if each.base_address == region.base_address)
        if start is not None and baseline.outputs.get(region.base_address) == start:
            continue  # only read: the variant may read it or not
        judgement.pre_states += 1
        judgement.poisoned_bytes += region.size_bytes
        run = run_once(store, changed, variant, settings.timeout_s)
        if not run.completed:
            judgement.fail(f"from another pre-state the variant {run.result.outcome.value.replace('_', ' ')}")
            continue
        _compare(store, changed, baseline.outputs, run, settings, judgement, region.base_address)
    if tried == len(regions):
        judgement.coverage = Coverage.PERTURBED
    elif judgement.passed:
        judgement.reasons.append(
            "some regions could not be tried with other contents: the kernel does not run on them"
        )


def _perturbed_baseline(
    store: Store, capture: Capture, region: Region, settings: Settings
) -> tuple[Capture | None, Run | None]:
    """The baseline from a state where a whole region is changed; if it cannot, where its outputs are."""
    for whole in (True, False) if region.written else (True,):
        with store.transaction() as transaction:
            pre = perturbed(store, transaction, region, whole=whole)
            transaction.publish_objects()
        changed = with_pre_state(capture, region, pre)
        baseline = run_once(store, changed, None, settings.timeout_s)
        if baseline.completed:
            return changed, baseline
    return None, None
