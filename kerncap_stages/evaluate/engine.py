"""Evaluates many variants of one kernel: a verdict for each, and a time for each that is right.

A cascade, cheapest first: build a source; refuse what is no variant of the kernel; judge; time. What earlier
runs judged is taken from the store, so that an interrupted evaluation goes on where it ended.
"""

from __future__ import annotations

import contextlib
import queue
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from kerncap_stages.digest import Digest
from kerncap_stages.errors import ExitCode, KerncapError, StoreError
from kerncap_stages.evaluate.building import BUILD_S, Builder
from kerncap_stages.evaluate.contract import Ready
from kerncap_stages.evaluate.ends import EvaluationInterrupted, EvaluationNotPublished, EvaluationStopped
from kerncap_stages.evaluate.entries import Answer, Entry
from kerncap_stages.evaluate.intake import Intake
from kerncap_stages.evaluate.known import Known, make_request, publish_as_wrong
from kerncap_stages.evaluate.leaders import Leaders, choose_key
from kerncap_stages.evaluate.local import WorkSettings
from kerncap_stages.evaluate.memory_limit import choose_limit
from kerncap_stages.evaluate.pool import Pool, Wanted
from kerncap_stages.evaluate.publishing import Publisher
from kerncap_stages.evaluate.recipe import read_recipe
from kerncap_stages.evaluate.record import make_evaluation
from kerncap_stages.evaluate.subject import open_subject
from kerncap_stages.evaluate.tasks import Result
from kerncap_stages.evaluate.where import open_workforce
from kerncap_stages.machine.temporary import TemporaryFolder
from kerncap_stages.manifests import dump
from kerncap_stages.manifests.evaluation import EvaluatedVariant, Evaluation, MeasuredTime, Outcome
from kerncap_stages.validate.request import JudgeSettings

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kerncap_stages.evaluate.candidates import Candidate
    from kerncap_stages.evaluate.contract import Worker
    from kerncap_stages.evaluate.subject import OpenedSubject, Subject
    from kerncap_stages.store import Store

    News = tuple[Worker, Ready | Result | None] | Entry | Exception | None

_LOOK_S = 0.1
_MAX_ATTEMPTS = 2
_MAX_LOSSES = 5  # of nodes; then the variant that they were to judge is the likely reason
_MAX_FAILURES = 4  # before any verdict; then the captured kernel is replayed by itself


@dataclass(frozen=True)
class EvaluateSettings:
    """How to evaluate. ``judge``: how each variant is judged, as by kc-validate.

    workers: None: one for each GPU, or for each core on the software GPU. runs: timed runs on a device.
    max_memory_bytes: of the replays of one variant; None: a choice by the capture's size on the software GPU.
    fresh: judge again what earlier runs judged. on: where workers run, as --on says; None: on this machine.
    """

    judge: JudgeSettings = field(default_factory=JudgeSettings)
    workers: int | None = None
    runs: int = 20
    max_memory_bytes: int | None = None
    fresh: bool = False
    on: str | None = None


class Report(Protocol):
    """Called with each variant as soon as its verdict is in the store."""

    def __call__(self, number: int, variant: EvaluatedVariant) -> None:
        """``number``: its place in the order in which variants were given. It has no rank yet."""


def run_evaluate(
    subject: Subject,
    candidates: Iterable[Candidate],
    settings: EvaluateSettings | None = None,
    report: Report | None = None,
) -> tuple[Digest, Evaluation]:
    """Judge and time all candidates, and publish the evaluation in the subject's store.

    candidates: may be a generator that waits; it is read in a thread.
    After any error what was judged is published as an evaluation that is not complete, if anything was.
    Raises EvaluationInterrupted after Ctrl-C, or KeyboardInterrupt if nothing was judged;
    EvaluationNotPublished if the store does not take it; UsageError for candidates that cannot be listed;
    DeviceError if the captured kernel cannot be replayed on this machine.
    """
    settings = settings or EvaluateSettings()
    opened = open_subject(subject, settings.judge)
    with TemporaryFolder("variants") as folder:
        evaluator = _Evaluator(opened, settings, report, folder)
        try:
            evaluator.run(candidates)
        except (KeyboardInterrupt, EvaluationStopped) as end:
            if not evaluator.has_judged:
                raise  # an evaluation of nothing would be the latest
            if isinstance(end, EvaluationStopped):
                return evaluator.publish(complete=False)
            raise EvaluationInterrupted(*evaluator.publish(complete=False)) from None
        except Exception:
            if evaluator.has_judged:  # the times are known there alone
                with contextlib.suppress(KerncapError):  # the store's error may be why we are here
                    evaluator.publish(complete=False)
            raise
        return evaluator.publish(complete=True)


class _Evaluator:
    """The coordinator. Other threads only put something into its queue."""

    def __init__(
        self, subject: OpenedSubject, settings: EvaluateSettings, report: Report | None, folder: Path
    ) -> None:
        self._subject = subject
        self._settings = settings
        self._report = report
        self._folder = folder
        self._store: Store = subject.subject.store
        self._publisher = Publisher(self._store)
        self._known = Known(subject, fresh=settings.fresh)
        self._news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._intake: Intake | None = None
        self._entries: dict[int, Entry] = {}
        self._firsts: dict[object, Entry] = {}
        self._described: dict[int, EvaluatedVariant] = {}
        self._leaders = Leaders(subject.cases)
        self._failures, self._has_verdict = 0, False
        work = WorkSettings(
            settings.judge,
            settings.runs,
            settings.fresh,
            choose_limit(settings.max_memory_bytes, subject.captures),
        )
        self._workforce = open_workforce(settings.on, subject, work, settings.workers, folder)
        if self._workforce.machine is not None:
            self._known.add_machine(self._workforce.machine)
        self._pool = Pool(
            subject, settings.judge, self._workforce, lambda worker, told: self._news.put((worker, told))
        )

    def run(self, candidates: Iterable[Candidate]) -> None:
        """Evaluate all candidates."""
        project = self._subject.subject.project
        builder = None
        if project is not None and read_recipe(project) is not None:
            builder = Builder(project, self._folder, self._workforce.builds, BUILD_S)
        codes = self._folder / "codes"
        codes.mkdir()
        builds = self._workforce.builds
        intake = self._intake = Intake(candidates, codes, builder, builds, self._news.put)
        intake.start()
        is_listed = False
        try:
            while not (is_listed and self._is_idle):
                self._pool.hand_out(intake.read)
                with contextlib.suppress(queue.Empty):
                    news = self._news.get(timeout=_LOOK_S)
                    is_listed = is_listed or news is None
                    self._take(news)
                if self._publisher.is_due or self._pool.is_idle:
                    self._publisher.flush()
        finally:
            intake.stop()
            try:
                self._take_what_came()
            finally:
                self._pool.end()

    @property
    def _is_idle(self) -> bool:
        """Whether nothing is left to do. What is published may be timed, or judged again."""
        return self._publisher.is_empty and self._pool.is_idle and self._news.empty()

    @property
    def _machine(self) -> str:
        """The machine that the evaluation names: the first of several."""
        return next(iter(self._known.machines), self._subject.machine)

    @property
    def has_judged(self) -> bool:
        """Whether all is known of a variant."""
        return bool(self._described)

    def publish(self, *, complete: bool) -> tuple[Digest, Evaluation]:
        """Publish what was evaluated."""
        captures = self._subject.subject.captures
        manifest = make_evaluation(
            self._subject, self._settings.judge.bounds, self._machine, self._described, complete=complete
        )
        try:
            with self._store.begin_transaction() as transaction:
                return transaction.publish(dump(manifest), "evaluation", captures), manifest
        except StoreError as error:
            raise EvaluationNotPublished(manifest, error) from error

    def _take(self, news: News) -> None:
        if isinstance(news, Exception):
            raise news
        if isinstance(news, Entry):
            self._take_entry(news)
        elif news is not None:
            self._take_news(*news)

    def _take_what_came(self) -> None:
        """Take the results that are there, and publish them: the user interrupts, or all is done."""
        with contextlib.suppress(queue.Empty):
            while True:
                news = self._news.get_nowait()
                if isinstance(news, tuple) and isinstance(news[1], Result):
                    self._take_result(news[0], news[1])
        self._publisher.flush()

    def _take_entry(self, entry: Entry) -> None:
        """Take a variant whose code is known, or that could not be read or built."""
        self._entries[entry.number] = entry
        if entry.failed is not None:
            self._finish(entry)
            return
        first = self._firsts.setdefault(entry.identity, entry)
        if first is entry:
            for case in range(len(self._subject.cases)):
                self._ask(entry, case)
            return
        entry.same_as = first.number
        first.twins.append(entry)
        if first.is_finished:
            self._finish_twins(first)

    def _ask(self, entry: Entry, case: int) -> None:
        """Answer from the store, or have a worker judge the variant; one that is right may lack a time."""
        known, is_all = self._known.find(entry, case)
        if known is not None and is_all:
            self._answer(entry, case, known)
        else:
            self._pool.put(Wanted(entry, case, judged=known))

    def _take_news(self, worker: Worker, told: Ready | Result | None) -> None:
        """Take what a worker tells; None: it has ended."""
        if isinstance(told, Ready):
            self._pool.mark_ready(worker, told)
            if self._known.add_machine(told.machine):
                for wanted in self._pool.take_back():
                    self._ask(wanted.entry, wanted.case)
        elif told is not None:
            self._take_result(worker, told)
        else:
            self._publisher.flush()  # its store goes with it
            buried = self._pool.bury(worker)
            if buried.wanted is not None:
                self._try_again(buried.wanted, buried.why, is_lost=buried.is_lost)

    def _take_result(self, worker: Worker, result: Result) -> None:
        wanted = self._pool.take(worker, result)
        entry, case = wanted.entry, wanted.case
        if result.passed is None:
            # The worker knows the file by a name of ours, and a client of a service by no path at all.
            told = tuple(each.replace(str(entry.code), entry.candidate.name) for each in result.reasons)
            if not result.is_final:
                self._try_again(wanted, " ".join(told))
                return
            is_device = result.exit_code == ExitCode.DEVICE
            self._answer(entry, case, Answer(Outcome.UNJUDGED if is_device else Outcome.REFUSED, None, told))
            return
        self._has_verdict = True
        time_ = None if result.time is None else MeasuredTime.model_validate(result.time)
        outcome = Outcome.RIGHT if result.passed else Outcome.WRONG
        assert worker.machine is not None
        if wanted.judged is not None:
            reasons = (*result.reasons, *wanted.judged.reasons)
            is_own = result.own_process and wanted.judged.own_process
            known = replace(wanted.judged, own_process=is_own)
            answer = replace(known, outcome=outcome, time=time_, reasons=reasons)
            self._answer_timed(result, entry, case, answer)
            return
        assert result.verdict is not None
        verdict, code = Digest(result.verdict), None if result.code is None else Digest(result.code)
        answer = Answer(outcome, verdict, result.reasons, time_, code, worker.machine, result.own_process)
        request = make_request(self._subject.requests[case], entry, worker.machine)
        keys = [choose_key(request, own_process=result.own_process), *map(Digest, result.kept)]
        if self._settings.judge.perturb:
            keys.append(request.first_key)
        then = partial(self._answer_timed, result, entry, case, answer)
        if self._pool.times_apart and outcome is Outcome.RIGHT:
            then = partial(self._pool.put, Wanted(entry, case, judged=answer))
        self._publisher.add(worker.source, verdict, request.capture, keys, then)

    def _try_again(self, wanted: Wanted, why: str, *, is_lost: bool = False) -> None:
        """Give a task to another worker; after that, there is no verdict. ``is_lost``: its node was lost.

        If many fail, and there is no verdict yet, the variants may be to blame, or the device.
        Raises DeviceError or ArtifactError if the captured kernel does not replay by itself, either.
        """
        entry, case = wanted.entry, wanted.case
        tries, most = (entry.losses, _MAX_LOSSES) if is_lost else (entry.attempts, _MAX_ATTEMPTS)
        tries[case] = tries.get(case, 0) + 1
        self._failures += not is_lost
        if not self._has_verdict and self._failures >= _MAX_FAILURES:
            self._workforce.check(case)
            self._failures = 0
        if tries[case] < most:
            self._pool.put(wanted, first=True)
        else:
            self._answer(entry, case, Answer(Outcome.UNJUDGED, reasons=(why,)))

    def _answer_timed(self, result: Result, entry: Entry, case: int, answer: Answer) -> None:
        """Answer when the verdict is in the store; if a timed run was wrong, it must not say right."""
        if result.is_wrong_when_timed and answer.verdict is not None:
            wrong = publish_as_wrong(self._store, answer.verdict, answer.reasons)
            request = make_request(self._subject.requests[case], entry, answer.machine or self._machine)
            self._store.actions.put(request.key, wrong)
            answer = replace(answer, verdict=wrong)
        self._answer(entry, case, answer)

    def _answer(self, entry: Entry, case: int, answer: Answer) -> None:
        is_known, again = self._leaders.take(entry, case, answer)
        for each in again:
            self._pool.put(Wanted(entry, each, alone=True), first=True)
        if is_known:
            self._finish(entry)

    def _finish(self, entry: Entry) -> None:
        """Describe and report a variant of which all is known, and those that are the same."""
        entry.is_finished = True
        described = entry.describe(self._subject.cases, self._machine)
        self._described[entry.number] = described
        if described.outcome is Outcome.UNJUDGED and self._firsts.get(entry.identity) is entry:
            del self._firsts[entry.identity]  # the next variant with this code tries again
        if self._intake is not None:
            self._intake.release()
        if self._report is not None:
            self._report(entry.number, described)
        self._finish_twins(entry)

    def _finish_twins(self, entry: Entry) -> None:
        while entry.twins:
            twin = entry.twins.pop(0)
            twin.answers, twin.failed = entry.answers, entry.failed
            self._finish(twin)
