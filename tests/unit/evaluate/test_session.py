"""Ask and tell: variants that are handed in one by one, from any thread. The workers are made up."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path

import made_up
import manifest_examples as examples
import pytest

from kerncap_stages.errors import DeviceError, UsageError
from kerncap_stages.evaluate import workers as workers_module
from kerncap_stages.evaluate.candidates import Candidate
from kerncap_stages.evaluate.make_runner import NotBuiltError
from kerncap_stages.evaluate.session import EvaluateSettings, Session
from kerncap_stages.evaluate.subject import Subject
from kerncap_stages.manifests import dump, load_as
from kerncap_stages.manifests.evaluation import Evaluation, Outcome
from kerncap_stages.replay.variant_shape import VariantShape

HELPERS = Path(__file__).parents[2] / "helpers"
LIMIT_S = 60


@pytest.fixture
def session(store, tmp_path, monkeypatch):
    capture = made_up.publish(store, b"code object", "_Z5scalePfS_fi")
    monkeypatch.setattr(workers_module, "_COMMAND", (sys.executable, str(HELPERS / "fake_worker.py")))
    monkeypatch.setenv("PYTHONPATH", str(HELPERS))
    monkeypatch.setenv("KERNCAP_TEST_TASKS", str(tmp_path / "tasks"))
    verdict = examples.validation().model_copy(update={"variant": examples.code_object(), "precision": None})
    (tmp_path / "verdict").write_bytes(dump(verdict))
    monkeypatch.setenv("KERNCAP_TEST_VERDICT", str(tmp_path / "verdict"))
    monkeypatch.setenv("KERNCAP_TEST_GATE", str(tmp_path / "gate"))
    made = Session(Subject(store, (capture,)), EvaluateSettings(workers=2))
    yield made
    (tmp_path / "gate").touch()
    with contextlib.suppress(DeviceError):
        made.end(now=True)


def make(said, name=None):
    def build():
        return said.encode(), None

    return Candidate(name or said, Path("none"), build=build)


def test_each_verdict_comes_before_the_next_proposal(session, store):
    best = 9000
    for _ in range(3):
        judged = session.submit(make(f"right {best // 2}")).result(LIMIT_S)
        assert judged.outcome is Outcome.RIGHT
        assert judged.ratio == pytest.approx(best // 2 / 1000)
        best //= 2
    assert session.submit(make("wrong")).result(LIMIT_S).outcome is Outcome.WRONG
    digest, made = session.end()
    assert made.complete
    assert [each.rank for each in made.variants] == [3, 2, 1, None]
    assert load_as(store, digest, Evaluation) == made
    with pytest.raises(UsageError, match="ended"):
        session.submit(make("right 1"))
    assert session.end() == (digest, made)


def test_many_threads_hand_in_at_once(session):
    found = {}

    def hand_in(number):
        found[number] = session.submit(make(f"right {number}")).result(LIMIT_S)

    threads = [threading.Thread(target=hand_in, args=(number,)) for number in range(1, 21)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert {number: each.ratio for number, each in found.items()} == {
        number: number / 1000 for number in range(1, 21)
    }
    assert len(session.end()[1].variants) == 20


def test_without_variants_nothing_is_started_or_published(session, store):
    assert session.end() is None
    assert store.list_artifacts("evaluation") == []


def test_an_end_now_stops_what_runs_and_keeps_what_was_judged(session):
    session.submit(make("right 5")).result(LIMIT_S)
    slow = [session.submit(make(f"slow {number}")) for number in range(5)]
    began = time.monotonic()
    _, made = session.end(now=True)
    assert time.monotonic() - began < 30
    assert [str(each.name) for each in made.variants] == ["right 5"]
    assert not made.complete
    for each in slow:
        with pytest.raises(CancelledError):
            each.result(LIMIT_S)


def test_a_future_that_is_cancelled_is_left_out(session):
    slow = [session.submit(make(f"slow {number}")) for number in range(600)]  # more than are read ahead
    last = session.submit(make("right 1"))
    assert last.cancel()
    session.end(now=True)
    assert not any(each.done() and not each.exception() for each in slow)


def test_what_a_build_says_is_the_result(session):
    def fail(error):
        def build():
            raise error

        return Candidate("mine", Path("none"), ("-DX",), build=build)

    broken = session.submit(fail(NotBuiltError("expected ;"))).result(LIMIT_S)
    assert (broken.outcome, broken.reasons, broken.flags) == (Outcome.NOT_BUILT, ("expected ;",), ("-DX",))
    refused = session.submit(fail(UsageError("no launch"))).result(LIMIT_S)
    assert (refused.outcome, refused.reasons) == (Outcome.REFUSED, ("no launch",))
    odd = session.submit(fail(ZeroDivisionError("odd"))).result(LIMIT_S)
    assert odd.outcome is Outcome.UNJUDGED
    assert odd.reasons[0].startswith("it could not be judged: ZeroDivisionError: odd (test_session.py:")
    shape = VariantShape((2, 1, 1), None, None)
    launched = session.submit(Candidate("x", Path("none"), build=lambda: (b"right 7", shape)))
    assert launched.result(LIMIT_S).launch.grid_blocks == (2, 1, 1)


def test_an_error_of_the_evaluation_is_everybodys(session, monkeypatch):
    before = threading.enumerate()
    monkeypatch.setattr(workers_module, "_COMMAND", (sys.executable, "-c", "raise SystemExit(3)"))
    with pytest.raises(DeviceError, match="exit code 3"):
        session.submit(make("right 1")).result(LIMIT_S)
    with pytest.raises(DeviceError, match="exit code 3"):
        session.submit(make("right 2")).result(LIMIT_S)
    with pytest.raises(DeviceError, match="exit code 3"):
        session.end()
    # Nothing is left that waits for variants: a service fails many times.
    readers = [each for each in threading.enumerate() if each not in before]
    for each in readers:
        each.join(LIMIT_S)
    assert not any(each.is_alive() for each in readers)


def test_a_variant_that_could_not_be_judged_is_tried_again(session, tmp_path):
    assert session.submit(make("right 1")).result(LIMIT_S).outcome is Outcome.RIGHT
    for _ in range(2):
        assert session.submit(make("dies", "mine")).result(LIMIT_S).outcome is Outcome.UNJUDGED
    tried = (tmp_path / "tasks").read_text().splitlines()
    assert len(tried) == 1 + 4  # twice each
