"""Which variants are judged once more in processes of their own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from kerncap_stages.evaluate.entries import Answer, Entry
from kerncap_stages.evaluate.leaders import Leaders
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.evaluation import MeasuredTime, Outcome
from kerncap_stages.manifests.validation import Validation
from kerncap_stages.validate.request import JudgeSettings, read_request

CASE = SimpleNamespace(weight=None, calls=None)
NONE = (False, [])


def make_answer(ratio, *, own=False, outcome=Outcome.RIGHT):
    time = None if ratio is None else MeasuredTime(ratio=ratio, captured_ns=1000.0, variant_ns=1000.0 * ratio)
    return Answer(outcome, time=time, own_process=own)


@pytest.fixture
def leaders():
    return Leaders([CASE])


def test_each_that_would_be_the_best_is_judged_again(leaders):
    first, second, third = (Entry(number, None) for number in range(3))
    assert leaders.take(first, 0, make_answer(0.9)) == (False, [0])
    assert leaders.take(first, 0, make_answer(0.8, own=True)) == (True, [])
    assert leaders.take(second, 0, make_answer(0.85)) == (True, [])
    assert leaders.take(third, 0, make_answer(0.7)) == (False, [0])
    assert leaders.take(third, 0, make_answer(None, own=True, outcome=Outcome.WRONG)) == (True, [])
    # What was wrong alone has never been the best.
    assert leaders.take(Entry(4, None), 0, make_answer(0.75)) == (False, [0])


def test_one_that_cannot_be_judged_again_stays_right_but_has_no_rank(leaders):
    entry = Entry(0, None)
    assert leaders.take(entry, 0, make_answer(0.5)) == (False, [0])
    assert leaders.take(entry, 0, make_answer(None, own=True, outcome=Outcome.UNJUDGED)) == (True, [])
    assert entry.answers[0].outcome is Outcome.RIGHT
    assert entry.answers[0].time is None
    assert leaders.take(Entry(1, None), 0, make_answer(0.6)) == (False, [0])


def test_one_that_had_its_own_process_is_the_best_at_once(leaders):
    assert leaders.take(Entry(0, None), 0, make_answer(0.5, own=True)) == (True, [])
    assert leaders.take(Entry(1, None), 0, make_answer(0.6)) == (True, [])


@pytest.mark.parametrize("outcome", [Outcome.WRONG, Outcome.REFUSED, Outcome.UNJUDGED])
def test_one_that_is_not_right_is_not_judged_again(leaders, outcome):
    assert leaders.take(Entry(0, None), 0, make_answer(None, outcome=outcome)) == (True, [])


def test_one_without_a_time_has_no_rank_to_lose(leaders):
    assert leaders.take(Entry(0, None), 0, make_answer(None)) == (True, [])


def test_of_several_cases_only_those_are_judged_again_that_shared_a_process():
    leaders, entry = Leaders([CASE, CASE, CASE]), Entry(0, None)
    assert leaders.take(entry, 1, make_answer(0.5)) == NONE
    assert leaders.take(entry, 0, make_answer(0.5, own=True)) == NONE
    assert leaders.take(entry, 2, make_answer(0.5)) == (False, [1, 2])
    assert leaders.take(entry, 2, make_answer(0.5, own=True)) == NONE
    assert leaders.take(entry, 1, make_answer(0.5, own=True)) == (True, [])


def test_the_best_is_judged_again_in_a_process_of_its_own(evaluate, store, capture, tmp_path, tasks):
    said = {"a.co": "shared 500", "b.co": "shared 700", "c.co": "helped 300", "d.co": "shared 400"}
    told = []

    def report(_, variant):
        told.append(Path(str(variant.name)).name)

    # One by one: which of several is the best so far depends on when each is published.
    for count in range(1, 5):
        _, made = evaluate(dict(list(said.items())[:count]), report if count == 4 else None, workers=1)
    assert {Path(str(each.name)).name: (each.outcome, each.rank) for each in made.variants} == {
        "a.co": ("right", 2),
        "b.co": ("right", 3),
        "c.co": ("wrong", None),
        "d.co": ("right", 1),
    }
    assert sorted(told) == sorted(said)  # each once
    assert [each.ratio for each in made.variants] == [0.501, 0.7, None, 0.401]
    assert [each.cases[0].own_process for each in made.variants] == [True, False, True, True]
    assert sum(each["alone"] for each in tasks()) == 3
    assert len(tasks()) == 7
    # kc-validate takes only what had a process of its own.
    requests = [read_request(store, capture, tmp_path / "variants" / name, JudgeSettings()) for name in said]
    known = [store.actions.get(each.key) for each in requests]
    assert [each is not None for each in known] == [True, False, True, True]
    assert not load_as(store, known[2], Validation).passed
    count = len(tasks())
    _, again = evaluate(said, workers=1)
    assert len(tasks()) == count
    assert again.variants == made.variants
