"""Replays whose outputs are kept, each in a process of its own; those of the baseline are remembered."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.manifests.validation import BaselineReplay, OutputState, Validation
from kerncap_stages.remembered import known_as, request_key
from kerncap_stages.replaying.plan import own_code
from kerncap_stages.replaying.runner import ReplayRequest, replay_capture
from kerncap_stages.replaying.variant import variant_code
from kerncap_stages.temporary import TemporaryFolder
from kerncap_stages.validation.address_ranges import captured_ranges
from kerncap_stages.validation.collected import collected, collected_differing, missing_state
from kerncap_stages.validation.perturb import (
    OF_VARIABLES,
    Altered,
    altered,
    nudge_unit,
    variable_ranges,
    with_pre_state,
)
from kerncap_stages.validation.relocated import Relocation
from kerncap_stages.validation.settings import MOST_BYTES_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future, ThreadPoolExecutor

    from kerncap_stages.digest import Digest, MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.replaying.report import ReplayResult
    from kerncap_stages.replaying.runner import Repeats
    from kerncap_stages.replaying.standby import Standbys
    from kerncap_stages.store import Store
    from kerncap_stages.validation.arguments import Span
    from kerncap_stages.validation.perturb import Change

# Of a replay that is begun before it is known whether it is wanted, and that is made again if it took longer.
PATIENCE_S = 30.0


@dataclass(frozen=True)
class Run:
    """``outputs``: the state of each region afterwards, by base address; empty unless it completed."""

    outcome: ReplayOutcome
    explanation: str | None
    outputs: Mapping[int, MemoryRef]
    outside: tuple[tuple[int, int], ...] = ()  # address and length of what it wrote outside of all regions
    relocated_words: int = 0  # addresses of a variant's own functions and tables, taken for the captured ones
    further_runs: int = 0  # from the same state
    differing_runs: int = 0  # of these: what they left is not what the first did
    differing: tuple[Mapping[int, MemoryRef], ...] = ()  # what the first few of these left
    ran_once: str = ""  # why there are no further runs, where some were wanted

    @property
    def completed(self) -> bool:
        """Whether the kernel ran to its end."""
        return self.outcome is ReplayOutcome.COMPLETED

    @property
    def ending(self) -> str:
        """How it ended, for people."""
        return f"{self.outcome.value.replace('_', ' ')}: {self.explanation}"


def run_once(
    store: Store,
    capture: Capture,
    variant: Path | None,
    timeout_s: float,
    *,
    quiet: bool = False,
    standbys: Standbys | None = None,
    repeats: Repeats | None = None,
) -> Run:
    """Replay a capture and store the state of every region; ``quiet``: what it prints is for nobody.

    Only chunks that are not as they were before are written anywhere; they go with the next collection
    unless a validation keeps them.
    """
    with TemporaryFolder("outputs") as name:
        folder = Path(name)
        request = ReplayRequest(
            variant=variant,
            compare=False,
            dump_folder=folder,
            changes_only=True,
            timeout_s=timeout_s,
            timed=False,
            quiet=quiet,
            repeats=repeats,
        )
        result = replay_capture(store, capture, request, standbys)
        if standbys is not None and sum(part.size_bytes for part in capture.regions) > MOST_BYTES_AT_ONCE:
            standbys.settle()
        missing = missing_state(capture, folder)
        if result.outcome is not ReplayOutcome.COMPLETED:
            why = result.explanation
            if repeats is not None and result.outcome is ReplayOutcome.TIMED_OUT and missing is None:
                why = f"{why}: the first run did, and a further one from the same state does not"
            return Run(result.outcome, why, {})
        if missing is not None:
            what = f"the replay gave no whole state of region {missing.base_address:#x}"
            return Run(ReplayOutcome.CRASHED, what, {})
        relocation = _relocation(store, capture, variant, result)
        outputs = collected(store, capture, folder, relocation)
        words = 0 if relocation is None else relocation.words
        return Run(
            result.outcome,
            result.explanation,
            outputs,
            result.outside,
            words,
            *result.repeats,
            collected_differing(store, capture, outputs, folder, relocation),
            result.ran_once,
        )


def _relocation(
    store: Store, capture: Capture, variant: Path | None, result: ReplayResult
) -> Relocation | None:
    own = own_code(capture)
    if variant is None or own is None:
        return None
    captured = store.get(capture.kernel.code_object.payload.digest)
    code = variant_code(variant.read_bytes(), capture)
    return Relocation(captured, own.load_address, code, *result.variant_loaded)


@dataclass
class Baselines:
    """Replays of the captured kernel; what an earlier validation kept is not replayed again.

    ``gently``: numbers keep their size where regions are changed by a little. ``kept``: all that this
    validation used, in order.
    """

    store: Store
    capture: Capture
    capture_digest: Digest
    machine: str
    timeout_s: float
    patience_s: float | None = None  # of replays from changed states, instead of ``timeout_s``
    fresh: bool = False
    standbys: Standbys | None = None
    gently: bool = False
    kept: list[BaselineReplay] = field(default_factory=list)
    _begun: dict[Digest, Future[tuple[Altered, Run]]] = field(default_factory=dict)

    def run(self, number: int = 0) -> Run:
        """The ``number``-th replay from the captured state."""
        key = self._key(number=number)
        known = self._known(key)
        if known is not None:
            return self._again(known, self.capture)
        run = run_once(self.store, self.capture, None, self.timeout_s, standbys=self.standbys)
        self._keep(key, run, self.capture, None)
        return run

    def run_changed(self, region: Region, change: Change, parts: Sequence[Span]) -> tuple[Altered, Run]:
        """A replay from a state where one region was changed, and that state."""
        key = self._changed_key(region, change, parts)
        known = self._known(key)
        if known is not None and known.pre is not None:
            state = Altered(region, change, known.pre)
            return state, self._again(known, with_pre_state(self.capture, region, known.pre))
        begun = self._begun.pop(key, None)
        state, run = begun.result() if begun is not None else (self._altered(region, change, parts), None)
        if run is None and (same := self._kept_from(state)) is not None:
            return state, _run_of(same, with_pre_state(self.capture, region, state.pre))
        if run is None or run.outcome is ReplayOutcome.TIMED_OUT:
            run = self._run_from(state, self.patience_s or self.timeout_s)
        self._keep(key, run, with_pre_state(self.capture, region, state.pre), state)
        return state, run

    def begin_changed(
        self,
        pool: ThreadPoolExecutor,
        region: Region,
        change: Change,
        parts: Sequence[Span],
        and_from_there: Callable[[Altered], None],
    ) -> None:
        """Begin such a replay for a later ``run_changed``; ``and_from_there`` hears of the state first."""

        def work() -> tuple[Altered, Run]:
            state = self._altered(region, change, parts)
            and_from_there(state)
            return state, self._run_from(state, min(PATIENCE_S, self.timeout_s))

        if self.standbys is not None:
            self.standbys.start_one_more()
        self._begun[self._changed_key(region, change, parts)] = pool.submit(work)

    def changed_together(self, changes: Sequence[tuple[Region, Change, Sequence[Span]]]) -> Together:
        """A state where all of these regions are changed, and the replay from there."""
        key = self._key(changed=[self._what(*each) for each in changes])

        @cache
        def start() -> Capture:
            changed = self.capture
            for region, change, parts in changes:
                changed = with_pre_state(changed, region, self._altered(region, change, parts).pre)
            return changed

        known = self._known(key)
        if known is not None:
            self.kept.append(known)
        else:
            timeout_s = self.patience_s or self.timeout_s
            run = run_once(self.store, start(), None, timeout_s, quiet=True, standbys=self.standbys)
            self._keep(key, run, start(), None)
        return Together(start, self.kept[-1])

    def _altered(self, region: Region, change: Change, parts: Sequence[Span]) -> Altered:
        variables = variable_ranges(self.store, self.capture, region) if change in OF_VARIABLES else ()
        ranges = captured_ranges(self.capture)
        with self.store.transaction() as transaction:
            pre = altered(
                self.store, transaction, region, change, parts, variables, ranges, gently=self.gently
            )
            transaction.publish_objects()
        return Altered(region, change, pre)

    def _run_from(self, state: Altered, timeout_s: float) -> Run:
        start = with_pre_state(self.capture, state.region, state.pre)
        return run_once(self.store, start, None, timeout_s, quiet=True, standbys=self.standbys)

    def _kept_from(self, state: Altered) -> BaselineReplay | None:
        """A replay of this validation from the same state: another change may lead there."""
        where = (state.region.base_address, state.pre)
        return next((replay for replay in self.kept if (replay.changed_region, replay.pre) == where), None)

    def known_change(self, region: Region, change: Change, parts: Sequence[Span]) -> BaselineReplay | None:
        """What an earlier validation kept of the replay from that state."""
        return self._known(self._changed_key(region, change, parts))

    def _changed_key(self, region: Region, change: Change, parts: Sequence[Span]) -> Digest:
        return self._key(changed=self._what(region, change, parts))

    def _what(self, region: Region, change: Change, parts: Sequence[Span]) -> list[object]:
        units = [nudge_unit(part, change, gently=self.gently).hex() for part in parts]
        elements = [[part.start, part.end, part.element_type] for part in parts]
        return [region.base_address, change, elements, units]

    def _key(self, **what: object) -> Digest:
        return request_key(
            "baseline", capture=self.capture_digest, machine=self.machine, timeout_s=self.timeout_s, **what
        )

    def _again(self, known: BaselineReplay, start: Capture) -> Run:
        self.kept.append(known)
        return _run_of(known, start)

    def _keep(self, key: Digest, run: Run, start: Capture, state: Altered | None) -> None:
        before = _states_before(start)
        changed = {base: post for base, post in run.outputs.items() if post != before.get(base)}
        self.kept.append(
            BaselineReplay(
                key=key,
                changed_region=None if state is None else state.region.base_address,
                pre=None if state is None else state.pre,
                outcome=run.outcome,
                explanation=run.explanation,
                outputs=tuple(OutputState(base_address=base, post=post) for base, post in changed.items()),
            )
        )

    def remember(self, validation: Digest) -> None:
        """Let later validations find what this one kept."""
        for replay in self.kept:
            # From the captured state, a time-out says something of the machine's load.
            if replay.outcome is not ReplayOutcome.TIMED_OUT or replay.changed_region is not None:
                self.store.actions.put(replay.key, validation)

    def _known(self, key: Digest) -> BaselineReplay | None:
        known = None if self.fresh else known_as(self.store, key, Validation)
        return next((replay for replay in known[1].baselines if replay.key == key), None) if known else None


@dataclass(frozen=True)
class Together:
    """A state where several regions are changed, and the captured kernel's replay from it."""

    start: Callable[[], Capture]
    replay: BaselineReplay
    everywhere: bool = True  # but for addresses in them, where not

    @property
    def changed(self) -> dict[int, MemoryRef]:
        """What the replay changed, by base address."""
        return {state.base_address: state.post for state in self.replay.outputs}

    @property
    def run(self) -> Run:
        """The replay with the state of every region."""
        return _run_of(self.replay, self.start())


def _run_of(replay: BaselineReplay, start: Capture) -> Run:
    after = {state.base_address: state.post for state in replay.outputs}
    outputs = _states_before(start) | after if replay.outcome is ReplayOutcome.COMPLETED else {}
    return Run(replay.outcome, replay.explanation, outputs)


def _states_before(capture: Capture) -> dict[int, MemoryRef]:
    return {region.base_address: region.pre for region in capture.regions if region.pre is not None}
