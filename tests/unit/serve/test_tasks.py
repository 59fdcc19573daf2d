"""The tasks of a service. The evaluation is made up: a session that answers as the test says."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

from kerncap_stages.manifests.evaluation import EvaluatedVariant, Outcome
from kerncap_stages.serve import tasks as tasks_module
from kerncap_stages.serve.posted import PostedVariant
from kerncap_stages.serve.tasks import Status, Tasks, TooManyTasks

LIMIT_S = 30


class MadeUpSession:
    """Answers each variant with the next outcome; without one it waits until the end."""

    outcomes: list[Outcome]

    def __init__(self, _subject, _settings):
        self._waiting = []

    def submit(self, candidate):
        judging = Future()
        if not MadeUpSession.outcomes:
            self._waiting.append(judging)
            return judging
        outcome = MadeUpSession.outcomes.pop(0)
        judging.set_result(
            EvaluatedVariant(
                name=candidate.name, outcome=outcome, code=None, code_digest=None, cases=(), ratio=None
            )
        )
        return judging

    def end(self, *, now=False):
        assert now == bool(self._waiting)
        for each in self._waiting:
            each.cancel()


@pytest.fixture
def tasks(monkeypatch):
    monkeypatch.setattr(tasks_module, "Session", MadeUpSession)
    MadeUpSession.outcomes = []
    made = Tasks(None)
    yield made
    made.stop()


def post(tasks, *contents):
    return tasks.add("x", None, tuple(PostedVariant("n", each, ".hsaco", (), None) for each in contents))


def wait(tasks, task):
    done = threading.Event()
    tasks.call_when_done(task, done.set)
    assert done.wait(LIMIT_S)
    return task


def test_what_could_not_be_judged_is_judged_again_when_it_is_posted_again(tasks):
    MadeUpSession.outcomes = [Outcome.UNJUDGED, Outcome.WRONG]
    (first,) = post(tasks, b"a")
    assert wait(tasks, first).result["outcome"] == "unjudged"
    (second,) = post(tasks, b"a")
    assert second is not first
    assert wait(tasks, second).result["outcome"] == "wrong"
    assert post(tasks, b"a") == [second]


def test_only_new_variants_count_against_the_limit(tasks, monkeypatch):
    monkeypatch.setattr(tasks_module, "MAX_WAITING", 2)
    known = post(tasks, b"a", b"b")
    assert post(tasks, b"a", b"b", b"a") == [*known, known[0]]
    with pytest.raises(TooManyTasks):
        post(tasks, b"a", b"c")
    assert tasks.waiting == 2


def test_who_does_not_wait_any_more_is_not_called(tasks):
    MadeUpSession.outcomes = []
    (task,) = post(tasks, b"a")

    def fail():
        raise RuntimeError

    tasks.call_when_done(task, fail)
    tasks.forget(task, fail)
    tasks.forget(task, fail)
    assert task.then == []
    tasks.stop()
    assert (task.status, task.error, tasks.waiting) == (Status.FAILED, "the service was stopped", 0)
