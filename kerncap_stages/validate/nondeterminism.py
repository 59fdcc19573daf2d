"""Finds nondeterminism by repeated runs: one run cannot show a race, or memory that a kernel keeps."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from kerncap_stages.replay.runner import Repeats
from kerncap_stages.replay.variant import find_runtime_regions
from kerncap_stages.validate.compare.regions import count_changed_bytes
from kerncap_stages.validate.evidence import find_golden
from kerncap_stages.validate.host_writes import find_host_writes
from kerncap_stages.validate.request import MAX_BYTES_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.replay.runner import Guard
    from kerncap_stages.store import Store
    from kerncap_stages.validate.baselines import Baselines
    from kerncap_stages.validate.judgement import Judgement
    from kerncap_stages.validate.perturb.start import Start
    from kerncap_stages.validate.replayer import Run, SingleReplayer
    from kerncap_stages.validate.request import JudgeSettings

_MAX_REPLAYS = 8
# Runs of a variant from the captured state, and the time for them; on a real GPU it is mostly enough for all.
_MAX_RUNS = 32
_BUDGET_MS = 100
# A variant that counts its launches is run more often than that. It cannot know how often.
_UNSETTLED_RUNS = range(64, 129)
# Up to these limits the whole state is restored between runs; beyond them, only what the captured kernel
# writes.
_MAX_REGIONS = 1000
_MAX_SOFTWARE_BYTES = 256 << 20
# With bounds the outputs of a further run that differ must be compared themselves, for this many runs.
_KEPT_WITH_BOUNDS = 3
# Runs of the captured kernel from one state that show by how much its own outputs differ.
_SAMPLES = Repeats(15, budget_ms=500, kept=7)
KEPT_MEMORY = (
    "not deterministic: from the same state the variant gave other outputs in a process of its own than "
    "after another run: memory that it keeps between runs, or a race"
)


def plan_repeats(
    settings: JudgeSettings,
    capture: Capture,
    seed: int | None,
    guard: Guard | None = None,
    *,
    is_perturbed: bool,
) -> Repeats | None:
    """Decide how often a variant is run again from a state; None: not at all.

    seed: decides how many runs there are of a variant whose own variables change in each. guard: of further
    runs from the captured state, unless perturbed states are left out.
    From a perturbed state a kernel may write other bytes than it did, so the whole state must be restored.
    """
    wanted = settings.variant_runs or _MAX_RUNS
    if wanted == 1 or not capture.has_post:
        return None
    is_small = _is_small(capture)
    if is_perturbed:
        return Repeats(1, budget_ms=0) if is_small else None
    budget_ms = _BUDGET_MS if settings.variant_runs is None else int(settings.timeout_s * 500)
    kept = 1 if settings.bounds.is_exact else _KEPT_WITH_BOUNDS
    unsettled = 0
    if settings.variant_runs is None:
        chance = secrets.randbelow(len(_UNSETTLED_RUNS)) if seed is None else seed
        unsettled = _UNSETTLED_RUNS[chance % len(_UNSETTLED_RUNS)]
    guard = guard if settings.perturb else None
    return Repeats(wanted - 1, budget_ms, kept, restore_all=is_small, unsettled=unsettled, guard=guard)


def _is_small(capture: Capture) -> bool:
    """Whether restoring the whole state, region by region, is fast."""
    is_software = capture.device.software
    most_bytes = _MAX_SOFTWARE_BYTES if is_software else MAX_BYTES_AT_ONCE
    size_bytes = sum(region.size_bytes for region in capture.regions)
    return size_bytes <= most_bytes and len(capture.regions) <= _MAX_REGIONS


def replay_repeatedly(
    store: Store,
    capture: Capture,
    baselines: Baselines,
    count: int,
    golden: Mapping[int, MemoryRef] | None,
) -> list[Run]:
    """Replay the captured kernel from the captured state ``count`` times, or until one replay fails.

    While all replays agree with each other but not with the golden state, further ones follow: a kernel that
    is not deterministic may give the same outputs twice.
    """
    runs: list[Run] = []
    while len(runs) < max(count, _MAX_REPLAYS):
        if len(runs) >= count and not _needs_more_replays(store, capture, runs, golden or {}):
            break
        runs.append(baselines.run(len(runs)))
        if not runs[-1].completed:
            break
    return runs


def _needs_more_replays(
    store: Store, capture: Capture, runs: list[Run], golden: Mapping[int, MemoryRef]
) -> bool:
    """Whether a region is the same after all replays, but not as in the golden state."""
    compared = golden.keys() - find_runtime_regions(capture)
    states = {base: {run.outputs.get(base) for run in runs} for base in compared}
    odd = {base for base, seen in states.items() if len(seen) == 1 and golden[base] not in seen}
    by_host = find_host_writes(store, capture, golden, runs[0]) if odd else []
    odd -= {
        part.region.base_address
        for part in by_host
        if part.expected in states.get(part.region.base_address, ())
    }
    return bool(odd)


class OwnDifferences:
    """Replays of the captured kernel that show by how much its own outputs differ."""

    def __init__(
        self, store: Store, capture: Capture, baselines: Baselines, replayer: SingleReplayer
    ) -> None:
        """``baselines``: replays from the captured state, which later verdicts use, too."""
        self._store = store
        self._capture = capture
        self._baselines = baselines
        self._replayer = replayer
        self._sampled: dict[Hashable, Run] = {}  # by the key of the state

    def note(self, judgement: Judgement) -> Judgement:
        """Add a note if outputs of the captured kernel differ from the captured state."""
        golden = find_golden(self._capture)
        runs = replay_repeatedly(self._store, self._capture, self._baselines, 2, golden)
        judgement = replace(judgement, baseline_runs=len(runs))
        if not all(run.completed for run in runs):
            return judgement
        differing = count_nondeterministic_bytes(self._store, runs)
        if not differing:
            return judgement
        judgement = replace(judgement, nondeterministic_bytes=sum(differing.values()))
        return judgement.note(
            f"the captured kernel itself is not deterministic ({describe_differing(differing)} between its "
            "replays), but the variant differs by more, or elsewhere: a tolerance allows that"
        )

    def sample(self, start: Start) -> Run | None:
        """Return a run of the captured kernel from a state, with further ones that differ from it.

        There are no further ones if the state is too large to be put back between runs. None if it fails.
        """
        if start.key not in self._sampled:
            run = self._replayer.run(start, None, _SAMPLES if _is_small(self._capture) else None)
            if not run.completed:
                return None
            self._sampled[start.key] = run
        return self._sampled[start.key]


def count_nondeterministic_bytes(store: Store, runs: list[Run]) -> dict[int, int]:
    """Count the bytes that differ between replays, by the base address of their region."""
    first, *others = runs
    found: dict[int, int] = {}
    for base, state in first.outputs.items():
        count = sum(count_changed_bytes(store, state, other.outputs[base]) for other in others)
        if count:
            found[base] = count
    return found


def explain_nondeterminism(run: Run) -> str:
    """Explain that the runs of a variant differ."""
    return (
        f"not deterministic: {run.differing_runs} of {run.further_runs} further runs of the variant from the "
        "same state gave other outputs than its first: a race, or memory that it keeps between runs"
    )


def explain_runs(run: Run) -> list[str]:
    """Explain what the number of runs of a variant leaves open."""
    if run.ran_once:
        return [f"the variant was run once from each state: {run.ran_once}"]
    if run.unsettled:
        return [
            f"variables of the variant's own still changed after {run.further_runs} further runs from the "
            "same state: it may count its launches, and what later ones do is not known"
        ]
    return []


def describe_differing(differing: Mapping[int, int]) -> str:
    """Count the bytes that differ, for people. ``differing``: by the base address of their region."""
    number = sum(differing.values())
    return "1 byte differs" if number == 1 else f"{number} bytes differ"
