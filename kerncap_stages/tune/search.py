"""Proposes configurations by Optuna, and keeps what was found in a journal in the project's folder.

A configuration is proposed once. Where Optuna proposes one again, or one that a constraint forbids, the
nearest one that was not tried takes its place, so that a small space is tried to its end.
"""

from __future__ import annotations

import contextlib
import random
import warnings
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import TrialState

from kerncap_stages.errors import StoreError, UsageError
from kerncap_stages.manifests.evaluation import Outcome
from kerncap_stages.tune.devices import require_one_device

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.manifests.evaluation import EvaluatedVariant
    from kerncap_stages.tune.space import Configuration, Parameter, Space

_RESULT = "kerncap"  # the attribute of a trial that was judged
_LATEST = "kerncap_evaluation"  # the attribute of a study: its newest evaluation
_MAX_LISTED = 20_000  # configurations of a space that is searched for the nearest one
_MAX_GRID = 1_000_000
_MAX_TRIES = 20  # of Optuna, at a configuration in a larger one that the constraints allow
_MAX_DRAWN = 20_000  # at random, after that


class Sampler(StrEnum):
    """What proposes the next configuration."""

    TPE = "tpe"
    RANDOM = "random"
    GRID = "grid"


@dataclass(frozen=True)
class Proposal:
    """A configuration that is to be judged. ``trial``: Optuna's."""

    trial: optuna.Trial
    configuration: Configuration


@dataclass(frozen=True)
class Found:
    """A configuration that was judged, in this run or an earlier one. ``ratio``: None if it is not right.

    device: the GPU that it was timed on; None: none, or the software GPU.
    """

    configuration: Configuration
    outcome: Outcome
    ratio: float | None
    code_digest: str | None
    device: str | None = None


class Search:
    """One study: the space of one project on one machine, under one set of options."""

    def __init__(self, space: Space, journal: Path, name: str, sampler: Sampler, seed: int | None) -> None:
        """``name``: stands for all that a result depends on. No other process works on the journal.

        Raises StoreError if the journal cannot be read, UsageError if a grid is too large.
        """
        if sampler is Sampler.GRID and space.size > _MAX_GRID:
            raise UsageError(
                f"a grid of {space.size:,} configurations: at most {_MAX_GRID:,} are tried in order",
                hint="--sampler tpe, or fewer values",
            )
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space = space
        self._sampler = sampler
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._distributions = {each.name: _make_distribution(each) for each in space.parameters}
        self._found: dict[Configuration, Found] = {}
        self._running: dict[int, Configuration] = {}
        self._untried: dict[Configuration, None] | None = None
        self._device: str | None = None  # that all times are from, once there is one
        try:
            _remove_torn_line(journal)
            storage = JournalStorage(JournalFileBackend(str(journal), JournalFileOpenLock(str(journal))))
            self._study = optuna.create_study(
                storage=storage, study_name=name, load_if_exists=True, sampler=_make_sampler(sampler, seed)
            )
        except (OSError, ValueError, KeyError) as error:
            raise StoreError(f"{journal}: {error}", hint="move it away, and start again") from error
        self._read()
        self._order = space.list_allowed() if sampler is Sampler.GRID else iter(())
        if space.size <= _MAX_LISTED:
            self._untried = {each: None for each in space.list_allowed() if each not in self._found}

    @property
    def found(self) -> list[Found]:
        """All that was judged, in the order of the trials."""
        return list(self._found.values())

    @property
    def best(self) -> Found | None:
        """The fastest right configuration; the first of several."""
        right = [each for each in self._found.values() if each.ratio is not None]
        return min(right, key=lambda each: each.ratio or 0.0, default=None)

    @property
    def evaluation(self) -> str | None:
        """The digest of the newest evaluation."""
        value = self._study.user_attrs.get(_LATEST)
        return value if isinstance(value, str) else None

    @evaluation.setter
    def evaluation(self, digest: str) -> None:
        self._study.set_user_attr(_LATEST, digest)

    def propose(self) -> Proposal | None:
        """Propose a configuration that was not tried; None if all were tried, or if no new one is found.

        Raises UsageError if a constraint has no value for one.
        """
        if self._untried is not None and not self._untried:
            return None
        wanted = self._choose_fixed()
        tries = 0
        while wanted is None:
            tries += 1
            trial = self._study.ask(self._distributions)
            configuration = self._space.make(tuple(trial.params[name] for name in self._space.names))
            if self._is_new(configuration):
                return self._begin(trial, configuration)
            self._tell_known(trial, configuration)
            if self._untried is not None:
                wanted = self._find_nearest(configuration)
            elif tries >= _MAX_TRIES:
                wanted = self._draw()
                if wanted is None:
                    return None
        self._study.enqueue_trial(wanted.as_dict())
        return self._begin(self._study.ask(self._distributions), wanted)

    def tell(self, proposal: Proposal, variant: EvaluatedVariant | None) -> None:
        """Take what became of a proposal; None: it was not judged, and may be proposed again another time.

        Raises UsageError for a time from another GPU than that of the search; it does not count.
        """
        self._running.pop(proposal.trial.number, None)
        if variant is None or variant.outcome is Outcome.UNJUDGED:
            self._study.tell(proposal.trial, state=TrialState.FAIL)
            return
        try:
            device = require_one_device(self._device, variant)
        except UsageError:
            self._study.tell(proposal.trial, state=TrialState.FAIL)
            raise
        self._device = device
        ratio = variant.ratio if variant.outcome is Outcome.RIGHT else None
        code = None if variant.code_digest is None else str(variant.code_digest)
        found = Found(proposal.configuration, variant.outcome, ratio, code, device)
        attribute: dict[str, Any] = {
            "outcome": str(variant.outcome),
            "ratio": ratio,
            "code_digest": code,
            "device": device,
        }
        proposal.trial.set_user_attr(_RESULT, attribute)
        self._found[proposal.configuration] = found
        self._tell_known(proposal.trial, proposal.configuration)

    def _begin(self, trial: optuna.Trial, configuration: Configuration) -> Proposal:
        self._running[trial.number] = configuration
        if self._untried is not None:
            self._untried.pop(configuration, None)
        return Proposal(trial, configuration)

    def _choose_fixed(self) -> Configuration | None:
        """Return the first values of all parameters, at first; the next of a grid; None: ask Optuna."""
        if self._sampler is Sampler.GRID:
            return next((each for each in self._order if self._is_new(each)), None) or self._take_any()
        first = self._space.make(tuple(each.values[0] for each in self._space.parameters))
        return first if not self._found and not self._running and self._is_new(first) else None

    def _take_any(self) -> Configuration | None:
        return next(iter(self._untried), None) if self._untried else None

    def _is_new(self, configuration: Configuration) -> bool:
        tried = configuration in self._found or configuration in self._running.values()
        return not tried and self._space.is_allowed(configuration)

    def _find_nearest(self, wanted: Configuration) -> Configuration | None:
        """Return the untried configuration that differs least; one of several at random."""
        if not self._untried:
            return None
        places = [
            {value: place for place, value in enumerate(each.values)} for each in self._space.parameters
        ]
        ours = [place[value] for place, (_, value) in zip(places, wanted.values, strict=True)]

        def measure(other: Configuration) -> tuple[int, int, float]:
            steps = [
                abs(place[value] - mine)
                for place, (_, value), mine in zip(places, other.values, ours, strict=True)
            ]
            return sum(map(bool, steps)), sum(steps), self._random.random()

        return min(self._untried, key=measure)

    def _draw(self) -> Configuration | None:
        """Return an untried configuration at random; None if none is found."""
        for _ in range(_MAX_DRAWN):
            values = tuple(self._random.choice(each.values) for each in self._space.parameters)
            if self._is_new(configuration := self._space.make(values)):
                return configuration
        return None

    def _tell_known(self, trial: optuna.Trial, configuration: Configuration) -> None:
        """Finish a trial of which all is known: judged, forbidden by a constraint, or judged just now."""
        found = self._found.get(configuration)
        if found is not None and found.ratio is not None:
            self._study.tell(trial, found.ratio)
        elif configuration in self._running.values():
            self._study.tell(trial, state=TrialState.FAIL)
        else:  # worse than all that is right
            self._study.tell(trial, state=TrialState.PRUNED)

    def _read(self) -> None:
        """Read what earlier runs found. What they had begun is over."""
        for _ in self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
            self._study.ask()
        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            self._study.tell(trial.number, state=TrialState.FAIL)
        for trial in self._study.get_trials(deepcopy=False):
            result = trial.user_attrs.get(_RESULT)
            if isinstance(result, dict) and set(trial.params) == set(self._space.names):
                configuration = self._space.make(tuple(trial.params[name] for name in self._space.names))
                outcome, device = Outcome(result["outcome"]), result.get("device")
                self._found[configuration] = Found(
                    configuration, outcome, result["ratio"], result["code_digest"], device
                )
                self._device = self._device or device


def _remove_torn_line(journal: Path) -> None:
    """Remove what is behind the last whole line. A full disk leaves that, and new lines would join it."""
    with contextlib.suppress(FileNotFoundError), journal.open("r+b") as file:
        content = file.read()
        if not content.endswith(b"\n"):
            file.truncate(content.rfind(b"\n") + 1)


def _make_distribution(parameter: Parameter) -> BaseDistribution:
    if parameter.is_range and len(parameter.values) > 1:
        first, second, *_ = parameter.values
        low, high = int(first), int(parameter.values[-1])
        return IntDistribution(low, high, step=int(second) - low)
    return CategoricalDistribution(parameter.values)


def _make_sampler(sampler: Sampler, seed: int | None) -> optuna.samplers.BaseSampler:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of options that are experimental
        if sampler is Sampler.TPE:
            # Of those that are judged at the same time it supposes the worst, so that they differ.
            return optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        return optuna.samplers.RandomSampler(seed=seed)
