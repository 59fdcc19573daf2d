"""Parts of memory that a variant writes and the captured kernel does not, whatever is there afterwards."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_replays import BASE, COUNT, Bench, choose_device, double

from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.manifests.validation import Mode
from kerncap_stages.replay.report import ReplayResult
from kerncap_stages.replay.runner import Repeats
from kerncap_stages.validate.arguments import Pointer
from kerncap_stages.validate.judgement import WRITES_ELSEWHERE, Judgement
from kerncap_stages.validate.perturb.start import Start
from kerncap_stages.validate.replays.baselines import Baselines
from kerncap_stages.validate.replays.replayer import Run
from kerncap_stages.validate.unexpected_writes import (
    NOT_RECORDED,
    NOTHING_TO_COMPARE_WITH,
    UnexpectedWrites,
)

HALF = COUNT * 2
ARGUMENTS = [Pointer("out", BASE, "fp32", is_const=False), Pointer("in", BASE + HALF, "fp32", is_const=True)]
REPEATS = Repeats(count=2, budget_ms=1000)


class Replays:
    """A captured kernel that writes these parts, and how often it was asked."""

    def __init__(self, writes):
        self.writes, self.replayed, self.ranges, self.repeats = writes, 0, None, None

    def watch_writes(self, ranges):
        self.ranges = ranges

    def run(self, _start, variant, repeats=None):
        assert variant is None
        self.replayed += 1
        self.repeats = repeats
        return made(self.writes)


def made(writes, outputs=None):
    return Run(
        ReplayOutcome.COMPLETED, None, outputs or {}, writes=None if writes is None else frozenset(writes)
    )


def double_first_half(values):
    values[: COUNT // 2] *= 2


def judge(store, kernel, before, of_captured, of_variant, *, software=True, outputs=None):
    bench = choose_device(Bench(store, kernel, before=before), software=software)
    replays = Replays(of_captured)
    baselines = Baselines(store, bench.capture, replays, {}, lambda _: None)
    unexpected = UnexpectedWrites(store, bench.capture, ARGUMENTS, replays, baselines)
    assert replays.ranges == [(BASE, BASE + HALF), (BASE + HALF, BASE + 2 * HALF)]
    golden = {each.base_address: each.post for each in bench.capture.regions}
    start = Start(store, bench.capture)
    judgement = Judgement(Mode.BYTE_EXACT)
    found = unexpected.judge(judgement, start, made(of_variant, outputs), golden, REPEATS)
    # What is known of a state is not found out again.
    assert unexpected.judge(judgement, start, made(of_variant, outputs), golden, REPEATS) == found
    # The captured kernel has as many runs to write as the variant.
    assert replays.repeats == (REPEATS if replays.replayed else None)
    return found, replays


@pytest.fixture
def before():
    return np.arange(1, COUNT + 1, dtype=np.float32)


def test_an_input_that_was_restored_fails(store, before):
    found, replays = judge(store, double_first_half, before, {0}, {0, 1})
    assert not found.passed
    assert found.reasons[-1].endswith("and puts back what was there: in")
    assert replays.replayed == 1


def test_what_the_captured_kernel_changes_needs_no_replay(store, before):
    found, replays = judge(store, double, before, {0, 1}, {0, 1})
    assert found.passed
    assert replays.replayed == 0


def test_a_captured_kernel_that_writes_what_was_there_may_be_followed(store):
    zeros = np.zeros(COUNT, dtype=np.float32)
    found, replays = judge(store, double, zeros, {0, 1}, {0, 1})
    assert found.passed
    assert replays.replayed == 1
    found, _ = judge(store, double, zeros, {0}, {0, 1})
    assert not found.passed


@pytest.mark.parametrize(
    ("of_variant", "software", "notes"),
    [(None, True, (NOT_RECORDED,)), (None, False, ()), ((), True, ())],
    ids=["not recorded", "a GPU records nothing", "wrote nothing"],
)
def test_a_verdict_tells_that_nobody_looked(store, before, of_variant, software, notes):
    found, replays = judge(store, double_first_half, before, {0}, of_variant, software=software)
    assert found.passed
    assert found.reasons == notes
    assert replays.replayed == 0


def test_a_captured_kernel_whose_writes_are_not_known_proves_nothing(store, before):
    found, _ = judge(store, double_first_half, before, None, {1})
    assert found.passed
    assert found.reasons == (NOTHING_TO_COMPARE_WITH,)


def written(repeats, states, *writes):
    runs = tuple(None if each is None else frozenset(each) for each in writes)
    result = ReplayResult(ReplayOutcome.COMPLETED, repeats=(repeats, 0), states=states, writes=runs)
    return result.split_writes()


def test_what_any_run_from_a_state_wrote_counts():
    assert written(2, 0, {0}, {1}, {0, 2}) == ({0, 1, 2}, [])
    assert written(1, 2, {0}, {1}, {2}, {3}) == ({0, 1}, [{2}, {3}])


def test_one_run_that_was_not_recorded_makes_its_state_unknown():
    assert written(2, 2, {0}, None, {1}, None, {3}) == (None, [None, {3}])


@pytest.mark.parametrize("writes", [(), ({0},), ({0}, {1}, {2}), ({0}, {1}, {2}, {3}, {4})])
def test_records_that_are_not_one_a_run_belong_to_none(writes):
    assert written(1, 2, *writes) == (None, [None, None])


def test_memory_that_the_variant_changes_is_not_said_to_be_put_back(store, before):
    changed = Bench(store, double, before=before).capture
    outputs = {each.base_address: each.post for each in changed.regions}
    found, _ = judge(store, double_first_half, before, {0}, {0, 1}, outputs=outputs)
    assert found.reasons == (f"{WRITES_ELSEWHERE}: in",)
    assert not found.passed
