"""Replays the captured kernel (the baseline), unless an earlier validation kept that replay."""

from __future__ import annotations

import contextlib
from functools import cached_property
from typing import TYPE_CHECKING

from kerncap_stages.digest import KeptRef
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.manifests.validation import BaselineReplay, OutputState, PerturbedState, Validation
from kerncap_stages.store.check import set_damaged_aside
from kerncap_stages.store.objects import find_damaged
from kerncap_stages.store.remembered import load_known, make_request_key
from kerncap_stages.validate.perturb.start import Start, make_fresh_starts
from kerncap_stages.validate.perturb.states import MadeValues
from kerncap_stages.validate.replays.replayer import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kerncap_stages.digest import Digest, MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.store import Store
    from kerncap_stages.validate.perturb.states import Trial
    from kerncap_stages.validate.replays.replayer import SingleReplayer


class BaselineRun:
    """A replay of the captured kernel from a state, made now or by an earlier validation."""

    def __init__(self, start: Start, kept: BaselineReplay) -> None:
        """``kept``: its record in the manifest."""
        self.start = start
        self.kept = kept

    @property
    def completed(self) -> bool:
        """Whether the kernel completed."""
        return self.kept.outcome is ReplayOutcome.COMPLETED

    @property
    def changed(self) -> dict[int, MemoryRef]:
        """The states of the regions that the kernel changed, by base address."""
        return self.kept.changed

    @cached_property
    def outputs(self) -> Mapping[int, MemoryRef]:
        """The states of all regions after the run, by base address; empty unless it completed."""
        return self.start.pre_states | self.changed if self.completed else {}

    @property
    def run(self) -> Run:
        """The replay as a ``Run``."""
        return Run(self.kept.outcome, self.kept.explanation, self.outputs)


class Baselines:
    """Replays the captured kernel, at most once from each state."""

    def __init__(
        self,
        store: Store,
        capture: Capture,
        replayer: SingleReplayer,
        scope: Mapping[str, object],
        known: Callable[[Digest], BaselineReplay | None],
    ) -> None:
        """``scope``: what all replays depend on, as plain JSON. ``known`` returns a kept replay for a key."""
        self._store = store
        self._capture = capture
        self._replayer = replayer
        self._scope = scope
        self._known = known
        self.kept: list[BaselineReplay] = []  # all replays that this validation used, in order
        self._values = MadeValues()
        self._starts: dict[Digest, Start] = {}  # by key, those that are made once

    def run(self, number: int = 0) -> Run:
        """Return the ``number``-th replay from the captured state."""
        return self._run_from(Start(self._store, self._capture), self._make_key(number=number)).run

    def start_from(self, *trials: Trial) -> Start:
        """Return the state in which these regions are perturbed; an earlier validation may have kept it."""
        key = self._make_trial_key(*trials)
        if key in self._starts:
            return self._starts[key]
        kept = self._known(key)
        known = None if kept is None else kept.pre_states
        start = Start(self._store, self._capture, *trials, known=known, values=self._values)
        if not start.is_fresh:
            self._starts[key] = start
        return start

    def start_freshly(self, choices: Sequence[Sequence[Trial]]) -> list[Start]:
        """Return the states of these choices of trials, which differ in their variety alone."""
        return make_fresh_starts(self._store, self._capture, choices, self._values)

    def run_from(self, *trials: Trial) -> BaselineRun:
        """Return the replay from the state in which these regions are perturbed."""
        return self._run_from(self.start_from(*trials), self._make_trial_key(*trials))

    def run_once(self, start: Start) -> BaselineRun:
        """Replay from a state that ``start_from`` made, and that no later validation has: it is not kept."""
        return BaselineRun(start, self._replay(self._make_trial_key(*start.trials), start))

    def run_kept(self, start: Start) -> BaselineReplay:
        """Return the replay from a state with perturbed regions; later validations know it."""
        return self._run_from(start, self._make_trial_key(*start.trials)).kept

    def find_kept(self, *trials: Trial) -> BaselineReplay | None:
        """Return the replay with these perturbations if an earlier validation kept it, else None."""
        return self._known(self._make_trial_key(*trials))

    def find_guarded(self, *, fresh: bool = False) -> BaselineReplay | None:
        """Return the guarded replay that decided what is opened; see ``keep_guarded``."""
        key = self._make_key(guarded="fresh" if fresh else "captured")
        return next((replay for replay in self.kept if replay.key == key), None) or self._known(key)

    def keep_guarded(
        self, outcome: ReplayOutcome, opened: Iterable[tuple[int, int]] = (), *, fresh: bool = False
    ) -> None:
        """Keep how a guarded replay ended, from the captured state or from fresh values.

        opened: first addresses and those behind the ends of memory that could be written in it.
        """
        key = self._make_key(guarded="fresh" if fresh else "captured")
        ranges = tuple((begin, end - begin) for begin, end in opened)
        self.kept = [replay for replay in self.kept if replay.key != key]
        self.kept.append(
            BaselineReplay(
                key=key,
                changed_region=None,
                pre=None,
                explanation=None,
                outcome=outcome,
                outputs=(),
                opened=ranges,
            )
        )

    def remember(self, validation: Digest) -> None:
        """Make the replays that this validation used available to later ones. Call it after publishing."""
        for replay in find_lasting(self.kept):
            self._store.actions.put(replay.key, validation)

    def forget_passing(self) -> None:
        """Forget the replays that another verdict must not use; see ``find_lasting``."""
        self.kept = find_lasting(self.kept)

    def _run_from(self, start: Start, key: Digest) -> BaselineRun:
        kept = self._known(key)
        if kept is None:
            kept = self._find_same(start) or self._replay(key, start)
        if kept not in self.kept:
            self.kept.append(kept)
        return BaselineRun(start, kept)

    def _replay(self, key: Digest, start: Start) -> BaselineReplay:
        run = self._replayer.run(start, None)
        before = start.pre_states
        changed = {base: post for base, post in run.outputs.items() if post != before.get(base)}
        perturbed = start.perturbed_states
        region = start.trials[0].region.base_address if len(start.trials) == 1 else None
        together = tuple(
            PerturbedState(base_address=base, pre=KeptRef.to(pre.digest)) for base, pre in perturbed.items()
        )
        return BaselineReplay(
            key=key,
            changed_region=region,
            pre=None if region is None else KeptRef.to(perturbed[region].digest),
            perturbed=together if len(together) > 1 else None,
            outcome=run.outcome,
            explanation=run.explanation,
            outputs=tuple(
                OutputState(base_address=base, post=KeptRef.to(post.digest)) for base, post in changed.items()
            ),
        )

    def _find_same(self, start: Start) -> BaselineReplay | None:
        """Find a replay of this validation from the same state: two perturbations may give the same state."""
        if len(start.trials) != 1:
            return None
        base = start.trials[0].region.base_address
        where = (base, start.perturbed_states[base])
        return next((each for each in self.kept if (each.changed_region, each.pre_state) == where), None)

    def _make_trial_key(self, *trials: Trial) -> Digest:
        return self._make_key(perturbed=[trial.describe() for trial in trials])

    def _make_key(self, **what: object) -> Digest:
        return make_request_key("baseline", **self._scope, **what)


def find_lasting(replays: Iterable[BaselineReplay]) -> list[BaselineReplay]:
    """Return the replays that later verdicts may use.

    A time-out from the captured state is not among them: it may come from the machine's load.
    """
    return [
        each
        for each in replays
        if each.outcome is not ReplayOutcome.TIMED_OUT or each.changed_region is not None
    ]


def make_kept_finder(
    store: Store, seen: list[BaselineReplay] | None = None
) -> Callable[[Digest], BaselineReplay | None]:
    """Return a function that finds a replay, by its key, that an earlier validation in this store kept.

    A replay whose states are not in the store any more is not found. seen: gets all whose keys are looked up.
    """
    whole: set[Digest] = set()  # keys of replays whose states are here: they are looked up several times

    def is_whole(replay: BaselineReplay) -> bool:
        states = [*replay.pre_states.values(), *replay.changed.values()]
        if replay.key in whole or all(store.has_memory(state.digest) for state in states):
            whole.add(replay.key)
        return replay.key in whole

    def find(key: Digest) -> BaselineReplay | None:
        known = load_known(store, key, Validation)
        found = next((replay for replay in known[1].baselines if replay.key == key), None) if known else None
        if found is not None and seen is not None:
            seen.append(found)
        return found if found is not None and is_whole(found) else None

    return find


def set_states_aside(store: Store, replays: Iterable[BaselineReplay], capture: Digest) -> bool:
    """Set aside what is damaged of the states of kept replays; whether there was any.

    Then these replays are not found any more, and new ones store their states again. What the capture needs
    stays: its damage cannot be mended.
    """
    suspected = {
        state.digest
        for replay in replays
        for state in (*replay.pre_states.values(), *replay.changed.values())
    }
    for digest in [*suspected]:
        with contextlib.suppress(ArtifactError):
            suspected.update(chunk for chunk in store.read_chunk_list(digest)[2] if chunk is not None)
    needed = store.walk([capture], kept=False).kinds
    damaged = find_damaged(store, sorted(suspected - needed.keys()))
    return bool(damaged) and bool(set_damaged_aside(store, list(damaged)))
