"""A failure in a process that other variants had run in is no verdict yet."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kerncap_stages.errors import DeviceError, Refused
from kerncap_stages.evaluate.judging import VariantJudge

RIGHT, WRONG = SimpleNamespace(passed=True), SimpleNamespace(passed=False)


@pytest.fixture
def judge_surely(monkeypatch):
    """Judges a variant: what each attempt says, and whether others had run in the first one's process."""

    def run(*said, shared):
        events = []
        replayers = SimpleNamespace(is_doubtful=shared, end_process=lambda: events.append("end"))
        judge = object.__new__(VariantJudge)
        judge._standbys, judge._baselines = replayers, None
        judge.capture = SimpleNamespace(size_bytes=0)

        def begin(*_, alone):
            assert not alone
            replayers.is_doubtful = False
            events.append("begin")

        def judge_once(*_):
            events.append("judge")
            found = said[events.count("judge") - 1]
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(judge, "_begin", begin)
        monkeypatch.setattr(judge, "_judge_once", judge_once)
        return judge._judge_surely(None, None, b"code", None), events

    return run


@pytest.mark.parametrize("first", [WRONG, DeviceError("no memory", hint=""), Refused("no code", hint="")])
def test_what_failed_where_others_had_run_is_judged_in_the_next_process(judge_surely, first):
    for second in (RIGHT, WRONG):
        found, events = judge_surely(first, second, shared=True)
        assert found is second
        assert events == ["judge", "end", "begin", "judge"]


def test_what_is_right_is_not_judged_again(judge_surely):
    assert judge_surely(RIGHT, shared=True) == (RIGHT, ["judge"])


def test_in_a_process_of_its_own_the_first_verdict_counts(judge_surely):
    assert judge_surely(WRONG, shared=False) == (WRONG, ["judge"])
    with pytest.raises(Refused):
        judge_surely(Refused("no code", hint=""), shared=False)
