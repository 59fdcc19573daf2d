"""Evaluations that end before all is judged, or whose parts end in another order than they began."""

from __future__ import annotations

import threading

import pytest

from kerncap_stages.errors import StoreError
from kerncap_stages.evaluate import pool as pool_module
from kerncap_stages.evaluate.candidates import Candidate
from kerncap_stages.evaluate.ends import EvaluationInterrupted, EvaluationStopped
from kerncap_stages.evaluate.engine import EvaluateSettings, run_evaluate
from kerncap_stages.evaluate.subject import Subject
from kerncap_stages.store.transaction import Transaction


@pytest.mark.parametrize("end", [KeyboardInterrupt, EvaluationStopped])
def test_an_end_before_any_verdict_publishes_nothing(store, capture, tasks, monkeypatch, end):  # noqa: ARG001
    def stop(*_):
        raise end

    monkeypatch.setattr(pool_module.Pool, "hand_out", stop)
    with pytest.raises(end) as raised:
        run_evaluate(Subject(store, (capture,)), [], EvaluateSettings(workers=1))
    assert not isinstance(raised.value, EvaluationInterrupted)
    assert store.list_artifacts("evaluation") == []


def test_a_store_that_takes_no_evaluation_does_not_lose_it(evaluate, monkeypatch):
    publish = Transaction.publish

    def refuse(self, payload, kind, *more):
        if kind == "evaluation":
            raise StoreError("read-only", hint="another store")
        return publish(self, payload, kind, *more)

    monkeypatch.setattr(Transaction, "publish", refuse)
    with pytest.raises(StoreError, match="read-only") as raised:
        evaluate({"a.hsaco": "right 5"})
    assert raised.value.hint == "another store"
    assert [(each.outcome, each.rank) for each in raised.value.evaluation.variants] == [("right", 1)]


def test_of_equal_variants_the_first_that_was_given_counts(store, capture, tasks, tmp_path):
    """The other one is built, and judged, before it."""
    is_judged = threading.Event()

    def build_late():
        assert is_judged.wait(60)
        return b"right 5", None

    candidates = [
        Candidate("late", tmp_path, build=build_late),
        Candidate("early", tmp_path, build=lambda: (b"right 5", None)),
        Candidate("slower", tmp_path, build=lambda: (b"right 6", None)),
    ]
    told = {}

    def report(number, variant):
        told[number] = variant.same_as
        is_judged.set()

    _, made = run_evaluate(Subject(store, (capture,)), candidates, EvaluateSettings(workers=2), report)
    assert len(tasks()) == 2
    assert (told[1], told[0]) == (None, 1)
    assert [(each.name, each.same_as) for each in made.variants] == [
        ("late", None), ("early", 0), ("slower", None),
    ]  # fmt: skip
