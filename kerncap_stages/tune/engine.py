"""Tunes a project: proposes configurations, has them judged and timed, and keeps the fastest right one.

The variants of an evaluation are made while it runs: several are judged at once, and each verdict goes to the
search before the next proposal.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from concurrent.futures import FIRST_COMPLETED, CancelledError, wait
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from kerncap_stages.digest import Digest
from kerncap_stages.errors import UsageError
from kerncap_stages.evaluate.session import EvaluateSettings, Session
from kerncap_stages.evaluate.subject import open_subject
from kerncap_stages.evaluate.workers import choose_count
from kerncap_stages.machine.temporary import TemporaryFolder
from kerncap_stages.tune.applied import FOLDER
from kerncap_stages.tune.making import VariantMaker
from kerncap_stages.tune.search import Sampler, Search

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from kerncap_stages.evaluate.subject import OpenedSubject, Subject
    from kerncap_stages.manifests.evaluation import EvaluatedVariant, Evaluation
    from kerncap_stages.tune.search import Found, Proposal
    from kerncap_stages.tune.space import Space

    Running = dict[Future[EvaluatedVariant], Proposal]

_JOURNAL, _LOCK = "journal.log", "lock"


@dataclass(frozen=True)
class TuneSettings:
    """trials: configurations that are judged in all, those of earlier runs too. jobs: at the same time.

    max_time_s: no new ones are proposed after this time, and what runs is stopped.
    """

    evaluate: EvaluateSettings = field(default_factory=EvaluateSettings)
    trials: int = 100
    jobs: int | None = None
    max_time_s: float | None = None
    sampler: Sampler = Sampler.TPE
    seed: int | None = None


@dataclass(frozen=True)
class Tuned:
    """What is known at the end. ``digest``, ``evaluation``: of this run; None if nothing new was judged.

    latest: the digest of the newest evaluation, this one or an earlier one. found: in all runs.
    is_exhausted: no other configuration was found that the constraints allow.
    """

    space: Space
    found: tuple[Found, ...]
    best: Found | None
    digest: Digest | None
    evaluation: Evaluation | None
    latest: Digest | None
    is_exhausted: bool


class TuningInterrupted(KeyboardInterrupt):
    """The user interrupted; ``tuned`` holds what was judged, which is in the journal and in the store."""

    def __init__(self, tuned: Tuned) -> None:
        super().__init__()
        self.tuned = tuned


class Report(Protocol):
    """Called with each new configuration as soon as its verdict is in the store."""

    def __call__(self, number: int, configuration: dict[str, object], variant: EvaluatedVariant) -> None:
        """``number``: how many were judged before, in all runs."""


def run_tune(
    subject: Subject, space: Space, settings: TuneSettings | None = None, report: Report | None = None
) -> Tuned:
    """Tune the subject's project.

    Raises UsageError if the project and the space do not fit, or if another process tunes the project;
    TuningInterrupted after Ctrl-C; DeviceError if the captured kernel cannot be replayed on this machine.
    """
    settings = settings or TuneSettings()
    assert subject.project is not None
    opened = open_subject(subject, settings.evaluate.judge)
    jobs = settings.jobs or 2 * choose_count(settings.evaluate.workers, opened.first)
    # The variants are built here; the evaluation gets code objects.
    judged_for = replace(subject, project=None)
    with _lock(subject.project) as folder, TemporaryFolder("tune") as work:
        maker = VariantMaker(subject.project, space, opened.captures, work, jobs)
        name = _name_study(opened, space, maker.identity, settings.evaluate)
        search = Search(space, folder / _JOURNAL, name, settings.sampler, settings.seed)
        session = Session(judged_for, settings.evaluate)
        return _Tuner(space, settings, report, maker, search, session, jobs).run()


class _Tuner:
    def __init__(
        self,
        space: Space,
        settings: TuneSettings,
        report: Report | None,
        maker: VariantMaker,
        search: Search,
        session: Session,
        jobs: int,
    ) -> None:
        self._space = space
        self._settings = settings
        self._report = report
        self._maker = maker
        self._search = search
        self._session = session
        self._jobs = jobs
        self._running: Running = {}
        self._is_exhausted = False
        self._unjudged = 0  # in this run: each counts, so that it ends
        limit = settings.max_time_s
        self._end_at = None if limit is None else time.monotonic() + limit

    def run(self) -> Tuned:
        """Propose and judge until there is enough."""
        try:
            while not self._is_late() and self._propose():
                self._take_judged(wait(self._running, self._find_rest_s(), FIRST_COMPLETED).done)
        except KeyboardInterrupt:
            raise TuningInterrupted(self._end(now=True)) from None
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is the one to tell
                self._end(now=True)
            raise
        return self._end(now=bool(self._running))

    def _propose(self) -> bool:
        """Hand in new configurations; returns False when nothing runs any more."""
        while len(self._running) < self._jobs and self._count() < self._settings.trials:
            proposal = self._search.propose()
            if proposal is None:
                self._is_exhausted = True
                break
            try:
                self._running[self._session.submit(self._maker.make(proposal.configuration))] = proposal
            except BaseException:
                self._search.tell(proposal, None)
                raise
        return bool(self._running)

    def _count(self) -> int:
        return len(self._search.found) + len(self._running) + self._unjudged

    def _find_rest_s(self) -> float | None:
        return None if self._end_at is None else max(0.0, self._end_at - time.monotonic())

    def _is_late(self) -> bool:
        return self._end_at is not None and time.monotonic() >= self._end_at

    def _take_judged(self, done: set[Future[EvaluatedVariant]]) -> None:
        for judging in done:
            proposal = self._running.pop(judging)
            try:
                variant = judging.result()
            except CancelledError:
                self._search.tell(proposal, None)
                continue
            except BaseException:
                self._search.tell(proposal, None)
                raise
            number = len(self._search.found)
            self._search.tell(proposal, variant)
            self._unjudged += len(self._search.found) == number
            if self._report is not None:
                self._report(number, dict(proposal.configuration.values), variant)

    def _end(self, *, now: bool) -> Tuned:
        if now:
            self._maker.close()  # what is still built is not waited for
        try:
            made = self._session.end(now=now)
        finally:
            self._maker.close()
        self._take_judged({each for each in self._running if each.done()})
        digest, evaluation = made if made is not None else (None, None)
        if digest is not None:
            self._search.evaluation = str(digest)
        latest = self._search.evaluation
        return Tuned(
            self._space,
            tuple(self._search.found),
            self._search.best,
            digest,
            evaluation,
            None if latest is None else Digest(latest),
            self._is_exhausted,
        )


@contextlib.contextmanager
def _lock(project: Path) -> Iterator[Path]:
    """Make the project's folder for what was found, and keep it for this process.

    The project may be somebody else's: nothing is written through links that it holds.
    """
    folder = project / FOLDER
    try:
        folder.mkdir(exist_ok=True)
        for path in (folder, folder / _JOURNAL, folder / _LOCK):
            if path.is_symlink():
                raise UsageError(f"{path} is a symbolic link", hint="remove it: kc-tune makes its own file")
        flags = os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(folder / _LOCK, flags, 0o644)
    except OSError as error:
        raise UsageError(
            f"{folder}: {error.strerror}", hint="tune a copy of the project that you can write to"
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield folder
    except BlockingIOError:
        raise UsageError(
            f"another process tunes {project}", hint="wait for it, or tune a copy of the project"
        ) from None
    finally:
        os.close(handle)


def _name_study(opened: OpenedSubject, space: Space, identity: str, settings: EvaluateSettings) -> str:
    """Name all that the results depend on: results of other sources, machines or clusters do not compare."""
    judge = settings.judge.describe()
    judge.pop("seed", None)
    if judge["reference"] is None:
        judge.pop("reference")  # searches began without this member
    parts = [
        identity,
        space.describe(),
        [str(each) for each in opened.subject.captures],
        opened.machine,
        settings.on,  # this machine is then only where the search runs
        judge,
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
