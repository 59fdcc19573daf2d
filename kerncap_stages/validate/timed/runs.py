"""Judges what timed runs of a variant left, by the bounds of the newest verdict on it.

The replayer compares each timed run with the golden state, byte for byte. States that differ are judged here
as ``kc-validate`` does: with bounds, with addresses of code compared by what they name, without the parts in
which runs of the captured kernel differ, too, and without what threads of the program wrote.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING

from kerncap_stages.collect.write_set import find_written_ranges
from kerncap_stages.digest import Digest
from kerncap_stages.machine.identity import identify_machine
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.manifests.source import Source
from kerncap_stages.manifests.validation import Mode, Validation
from kerncap_stages.project.artifacts import find_source_of
from kerncap_stages.replay.floor import sum_over_own_memory
from kerncap_stages.replay.record import find_other_shape
from kerncap_stages.replay.report import WrongRuns
from kerncap_stages.replay.runner import Repeats
from kerncap_stages.replay.variant import extract_variant_code
from kerncap_stages.replay.variant_shape import find_variant_shape
from kerncap_stages.validate.arguments import find_pointers
from kerncap_stages.validate.compare.bounds import Bounds
from kerncap_stages.validate.explorer import Explorer
from kerncap_stages.validate.host_writes import exclude_host_writes
from kerncap_stages.validate.judgement import Judgement
from kerncap_stages.validate.own_comparison import OwnComparison
from kerncap_stages.validate.perturb.expectation import Expectation
from kerncap_stages.validate.perturb.start import Start
from kerncap_stages.validate.replays.baselines import Baselines, make_kept_finder
from kerncap_stages.validate.replays.outputs import make_relocation, publish_staged, stage_outputs
from kerncap_stages.validate.replays.replayer import ProcessReplayer, Run
from kerncap_stages.validate.request import JudgeSettings
from kerncap_stages.validate.timed.known_verdict import find_known_verdict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.replay.report import ReplayResult
    from kerncap_stages.store import Store

# Runs of the captured kernel that look for its own nondeterminism. Those that were timed in turn with a
# variant's do not tell: they may have read what it wrote.
_BASELINE_REPEATS = Repeats(7, budget_ms=1000, kept=3)


def judge_timed_runs(
    store: Store,
    digest: Digest,
    capture: Capture,
    variant: Path,
    result: ReplayResult,
    folder: Path,
    settings: JudgeSettings | None = None,
) -> WrongRuns | None:
    """Judge the states in ``folder``; None if all timed runs of the variant were right.

    settings: how to compare; None: as the newest verdict on this code object.
    """
    settings = settings or _find_settings(store, digest, capture, variant)
    judge = _StateJudge(store, digest, capture, variant, settings, result, folder)
    reasons: dict[int, tuple[str, ...]] = {}
    unknown = set()
    for state in sorted(set(result.variant_states) - {0}):
        if not (folder / f"state_{state}").is_dir():
            unknown.add(state)
            continue
        judgement = judge.judge(state)
        if not judgement.passed:
            reasons[state] = judgement.reasons
    if not reasons and not unknown:
        return None
    return WrongRuns(
        wrong=sum(state in reasons for state in result.variant_states),
        unknown=sum(state in unknown for state in result.variant_states),
        runs=len(result.variant_states),
        reasons=tuple(dict.fromkeys(reason for each in reasons.values() for reason in each)),
    )


def count_changed_bytes(
    store: Store,
    digest: Digest,
    capture: Capture,
    variant: Path,
    result: ReplayResult,
    folder: Path,
) -> int:
    """Return how many bytes of the GPU's own memory the timed runs of a variant changed, at least.

    Of a state that was not kept nothing is known.
    """
    judge = _StateJudge(store, digest, capture, variant, JudgeSettings(), result, folder)
    changed = []
    for state in set(result.variant_states):
        if state and not (folder / f"state_{state}").is_dir():
            return 0
        changed.append(judge.count_changed(state))
    return min(changed, default=0)


class _StateJudge:
    """Judges states that timed runs left."""

    def __init__(
        self,
        store: Store,
        digest: Digest,
        capture: Capture,
        variant: Path,
        settings: JudgeSettings,
        result: ReplayResult,
        folder: Path,
    ) -> None:
        self._store = store
        self._capture = capture
        self._settings = settings
        self._result = result
        self._folder = folder
        self._relocation = make_relocation(store, capture, variant, result)
        self._captured = Start(store, capture)
        self._replayer = ProcessReplayer(store, capture, settings.timeout_s)
        scope = {
            "capture": digest,
            "machine": identify_machine(capture.device.architecture),
            "timeout_s": settings.timeout_s,
        }
        self._baselines = Baselines(store, capture, self._replayer, scope, make_kept_finder(store))
        found = find_source_of(store, digest)
        arguments = find_pointers(store, capture, None if found is None else load_as(store, found, Source))
        explorer = Explorer(store, capture, settings, self._baselines, arguments)
        self._comparison = OwnComparison(store, capture, explorer, arguments)

    def judge(self, state: int) -> Judgement:
        """Judge one state, by its number."""
        run = self._read_run(state)
        expected, _ = exclude_host_writes(self._store, self._capture, self._golden, run, self._baselines.run)
        wanted = Expectation(self._captured, expected, self._settings.bounds)
        empty = Judgement(Mode.BYTE_EXACT if self._settings.bounds.is_exact else Mode.NUMERIC)
        judgement = self._comparison.judge_outputs(empty, wanted, run)
        if judgement.passed:
            return judgement
        wanted = self._comparison.allow_own_differences(wanted, self._baseline_runs, exclude=True)
        return self._comparison.judge_outputs(empty, wanted, run)

    def count_changed(self, state: int) -> int:
        """Count the bytes of the GPU's own memory that a run changed which left this state."""
        outputs = self._read_run(state).outputs if state else self._golden

        def count_in(region: Region) -> int:
            after = outputs.get(region.base_address)
            if region.pre is None or after is None:
                return 0
            return find_written_ranges(self._store, region.pre, after).size_bytes

        return sum_over_own_memory(self._capture, count_in)

    @cached_property
    def _golden(self) -> dict[int, MemoryRef]:
        return {each.base_address: each.post for each in self._capture.regions if each.post is not None}

    @cached_property
    def _baseline_runs(self) -> Run:
        """Runs of the captured kernel, in a process that no variant has run in."""
        return self._replayer.run(self._captured, None, _BASELINE_REPEATS)

    @cached_property
    def _first(self) -> Mapping[int, MemoryRef]:
        """What the first timed run left; the files of other states hold what differs from it."""
        if self._result.first_state == 0:
            return self._golden
        return self._read_state(self._result.first_state, None)

    def _read_state(self, state: int, base: Mapping[int, MemoryRef] | None) -> Mapping[int, MemoryRef]:
        folder = self._folder / f"state_{state}"
        with publish_staged(self._store) as transaction:
            return stage_outputs(transaction, self._capture, folder, self._relocation, base)

    def _read_run(self, state: int) -> Run:
        is_first = state == self._result.first_state
        outputs = self._first if is_first else self._read_state(state, self._first)
        return Run(ReplayOutcome.COMPLETED, None, outputs)


def _find_settings(store: Store, digest: Digest, capture: Capture, variant: Path) -> JudgeSettings:
    """Find how the newest verdict on this code object, in this launch, compared; else byte for byte."""
    code = Digest(hashlib.sha256(extract_variant_code(variant.read_bytes(), capture)).hexdigest())
    shape = find_other_shape(find_variant_shape(variant), capture.launch)
    known = find_known_verdict(store, digest, code, shape)
    if known is None:
        return JudgeSettings()
    verdict = load_as(store, known.digest, Validation)
    bounds = verdict.tolerance
    types = {region.element_type.value for region in verdict.regions}
    return JudgeSettings(
        Bounds() if bounds is None else Bounds(bounds.absolute, bounds.relative, bounds.ulp),
        types.pop() if bounds is not None and len(types) == 1 and types != {"bytes"} else None,
    )
