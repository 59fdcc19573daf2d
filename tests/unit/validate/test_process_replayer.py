"""Replays by processes, which are made up: what they are asked, and what becomes of their answers."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_replays import VARIANT, Bench, double

from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.replay.plan import PlanFiles, write_plan
from kerncap_stages.replay.report import ReplayResult
from kerncap_stages.validate.perturb.start import Start
from kerncap_stages.validate.replays import replayer as replayer_module
from kerncap_stages.validate.replays.replayer import ProcessReplayer


class Changed(Start):
    """The captured state with another one in its only region."""

    def __init__(self, bench, values):
        super().__init__(bench.store, bench.capture)
        self._values = {bench.capture.regions[0].base_address: bench._put(values)}

    @property
    def changes(self):
        return self._values

    @property
    def pre_states(self):
        return self._values


@pytest.fixture
def replay(store, monkeypatch):
    bench = Bench(store, double, double)
    asked, answers = [], []

    def answer(_store, _capture, request, _standbys):
        asked.append(request.verify)
        return answers.pop() if answers else ReplayResult(ReplayOutcome.COMPLETED, states=len(request.states))

    monkeypatch.setattr(replayer_module, "replay_capture", answer)

    def run(replayer, *further, answer=None):
        answers[:] = [] if answer is None else [answer]
        replayer._replay(None, Start(bench.store, bench.capture), None, None, further)
        return asked[-1]

    run.bench = bench
    return run


@pytest.mark.parametrize("once", [False, True])
def test_a_state_is_hashed_by_the_first_replay_that_completes_from_it(replay, once):
    bench = replay.bench
    replayer = ProcessReplayer(bench.store, bench.capture, 60.0, verify_once=once)
    one, other = (Changed(bench, np.full(64, each, np.float32)) for each in (1, 2))
    assert replay(replayer, answer=ReplayResult(ReplayOutcome.FAULTED))
    assert replay(replayer)  # the one before did not complete
    assert replay(replayer) is not once
    assert replay(replayer, one)  # a new state
    assert replay(replayer, one) is not once
    assert replay(replayer, one, other, answer=ReplayResult(ReplayOutcome.COMPLETED, states=1))
    assert replay(replayer, one, other)  # the other one was left out
    assert replay(replayer, other) is not once


def test_a_replay_hashes_only_the_states_that_no_other_one_did(replay, monkeypatch):
    bench, known = replay.bench, []
    replayer = ProcessReplayer(bench.store, bench.capture, 60.0, verify_once=True)
    (captured,) = Start(bench.store, bench.capture).pre_states.values()

    def answer(_store, _capture, request, _standbys):
        known.append((request.verify, request.verified))
        return ReplayResult(ReplayOutcome.COMPLETED, states=len(request.states))

    monkeypatch.setattr(replayer_module, "replay_capture", answer)
    changed = Changed(bench, np.full(64, 1, np.float32))
    for further in ([], [changed], [changed]):
        replayer._replay(None, Start(bench.store, bench.capture), None, None, further)
    states = {captured, *changed.pre_states.values()}
    assert known == [(True, frozenset()), (True, {captured}), (False, states)]


def test_the_plan_names_the_states_that_are_not_hashed(store, tmp_path):
    bench = Bench(store, double, double)
    capture = bench.capture.model_copy(update={"loaded_code_objects": ()})
    region = capture.regions[0]
    files = PlanFiles(tmp_path / "code", verified=frozenset({region.pre}))
    write_plan(store, capture, files, tmp_path / "plan")
    lines = (tmp_path / "plan").read_text().splitlines()
    assert f"memory {region.post.digest} 256 1048576" in lines
    assert [line for line in lines if line.startswith("verified")] == [f"verified {region.pre.digest}"]


def test_of_two_replays_at_the_same_time_one_hashes(replay, monkeypatch):
    bench = replay.bench
    replayer = ProcessReplayer(bench.store, bench.capture, 60.0, verify_once=True)
    start, asked = Start(bench.store, bench.capture), []

    def fail_after_another(store, capture, request, standbys):  # noqa: ARG001
        asked.append(request.verify)
        if len(asked) == 1:
            replayer._replay(None, start, None, None)
            raise ArtifactError("an object is damaged")
        return ReplayResult(ReplayOutcome.COMPLETED)

    monkeypatch.setattr(replayer_module, "replay_capture", fail_after_another)
    with pytest.raises(ArtifactError):
        replayer._replay(None, start, None, None)
    replayer._replay(None, start, None, None)  # the one that should have hashed it did not complete
    assert asked == [True, False, True]


@pytest.mark.parametrize(
    ("listed", "states", "runs"),
    [(False, 0, 1), (True, 0, None), (True, 1, None)],
    ids=["in the first run", "in a further run", "from another state"],
)
def test_only_a_fault_of_the_first_run_in_turn_is_known_to_be_one(replay, monkeypatch, listed, states, runs):
    bench = replay.bench
    replayer = ProcessReplayer(bench.store, bench.capture, 60.0)
    answer = ReplayResult(ReplayOutcome.FAULTED, explanation="a fault", states=states)
    monkeypatch.setattr(replayer_module, "replay_capture", lambda *_: answer)
    # The replayer lists the regions of the first run before it goes on.
    monkeypatch.setattr(replayer_module, "find_missing_state", lambda *_: None if listed else "a region")
    one = Changed(bench, np.full(64, 1, np.float32))
    found = replayer.run_in_turn(Start(bench.store, bench.capture), [one, one], VARIANT)
    assert found is None if runs is None else [each.explanation for each in found] == ["a fault"]


@pytest.mark.parametrize("phase", ["repeat", "state", None])
def test_a_further_run_from_the_captured_state_that_hangs_is_known_to_be_one(replay, monkeypatch, phase):
    bench = replay.bench
    replayer = ProcessReplayer(bench.store, bench.capture, 60.0)
    answer = ReplayResult(ReplayOutcome.TIMED_OUT, explanation="too long", phase=phase)
    monkeypatch.setattr(replayer_module, "replay_capture", lambda *_: answer)
    monkeypatch.setattr(replayer_module, "find_missing_state", lambda *_: None)
    one = Changed(bench, np.full(64, 1, np.float32))
    found = replayer.run_in_turn(Start(bench.store, bench.capture), [one, one], VARIANT)
    if phase != "repeat":
        assert found is None
        return
    (run,) = found
    assert run.outcome is ReplayOutcome.TIMED_OUT
    assert "too long: the first run ended, but a further one" in run.explanation
