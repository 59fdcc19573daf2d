"""Replays of the captured kernel. What an earlier validation kept is not replayed again."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.manifests.validation import BaselineReplay, OutputState, Validation
from kerncap_stages.store.remembered import load_known, make_request_key
from kerncap_stages.validate.perturb.start import Start
from kerncap_stages.validate.replayer import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kerncap_stages.digest import Digest, MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.store import Store
    from kerncap_stages.validate.perturb.states import Trial
    from kerncap_stages.validate.replayer import Replayer


class BaselineRun:
    """A replay of the captured kernel from a state, which may have been made by an earlier validation."""

    def __init__(self, start: Start, kept: BaselineReplay) -> None:
        """``kept``: the record of it in the manifest."""
        self.start = start
        self.kept = kept

    @property
    def completed(self) -> bool:
        """Whether the kernel ran to its end."""
        return self.kept.outcome is ReplayOutcome.COMPLETED

    @property
    def changed(self) -> dict[int, MemoryRef]:
        """The regions that are not as they were at the start, by base address."""
        return {state.base_address: state.post for state in self.kept.outputs}

    @cached_property
    def outputs(self) -> Mapping[int, MemoryRef]:
        """The state of every region afterwards, by base address; empty unless it completed."""
        return self.start.pre_states | self.changed if self.completed else {}

    @property
    def run(self) -> Run:
        """The same as a run."""
        return Run(self.kept.outcome, self.kept.explanation, self.outputs)


class Baselines:
    """Makes each replay of the captured kernel once."""

    def __init__(
        self,
        store: Store,
        capture: Capture,
        replayer: Replayer,
        scope: Mapping[str, object],
        known: Callable[[Digest], BaselineReplay | None],
    ) -> None:
        """``scope``: what all replays depend on, as plain JSON. ``known`` finds a kept replay by its key."""
        self._store = store
        self._capture = capture
        self._replayer = replayer
        self._scope = scope
        self._known = known
        self.kept: list[BaselineReplay] = []  # all that this validation used, in order

    def run(self, number: int = 0) -> Run:
        """Return the ``number``-th replay from the captured state."""
        return self._run_from(Start(self._store, self._capture), self._key(number=number)).run

    def start_from(self, *trials: Trial) -> Start:
        """Return the state where these regions are perturbed, as an earlier validation kept it if one did."""
        kept = self.find_kept(*trials)
        known = None
        if kept is not None and kept.changed_region is not None and kept.pre is not None:
            known = {kept.changed_region: kept.pre}
        return Start(self._store, self._capture, *trials, known=known)

    def run_from(self, *trials: Trial) -> BaselineRun:
        """Return the replay from the state where these regions are perturbed."""
        return self._run_from(self.start_from(*trials), self._trial_key(*trials))

    def find_kept(self, *trials: Trial) -> BaselineReplay | None:
        """Find the replay that an earlier validation kept."""
        return self._known(self._trial_key(*trials))

    def remember(self, validation: Digest) -> None:
        """Let later validations find the replays that this one used, once its manifest is published."""
        for replay in self.kept:
            # From the captured state, a time-out says something of the machine's load.
            if replay.outcome is not ReplayOutcome.TIMED_OUT or replay.changed_region is not None:
                self._store.actions.put(replay.key, validation)

    def _run_from(self, start: Start, key: Digest) -> BaselineRun:
        kept = self._known(key)
        if kept is None:
            kept = self._find_same(start) or self._keep(key, start)
        if kept not in self.kept:
            self.kept.append(kept)
        return BaselineRun(start, kept)

    def _keep(self, key: Digest, start: Start) -> BaselineReplay:
        run = self._replayer.run(start, None)
        before = start.pre_states
        changed = {base: post for base, post in run.outputs.items() if post != before.get(base)}
        region = start.trials[0].region.base_address if len(start.trials) == 1 else None
        return BaselineReplay(
            key=key,
            changed_region=region,
            pre=None if region is None else before[region],
            outcome=run.outcome,
            explanation=run.explanation,
            outputs=tuple(OutputState(base_address=base, post=post) for base, post in changed.items()),
        )

    def _find_same(self, start: Start) -> BaselineReplay | None:
        """Find a replay of this validation from the same state: another perturbation may lead there."""
        if len(start.trials) != 1:
            return None
        base = start.trials[0].region.base_address
        where = (base, start.pre_states[base])
        return next((replay for replay in self.kept if (replay.changed_region, replay.pre) == where), None)

    def _trial_key(self, *trials: Trial) -> Digest:
        return self._key(perturbed=[trial.describe() for trial in trials])

    def _key(self, **what: object) -> Digest:
        return make_request_key("baseline", **self._scope, **what)


def kept_replays(store: Store) -> Callable[[Digest], BaselineReplay | None]:
    """Return what finds a replay that an earlier validation of this store kept."""

    def find(key: Digest) -> BaselineReplay | None:
        known = load_known(store, key, Validation)
        return next((replay for replay in known[1].baselines if replay.key == key), None) if known else None

    return find
