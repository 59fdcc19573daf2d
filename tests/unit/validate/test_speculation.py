"""Replays that are begun before it is known whether they are needed, and those that are kept."""

from __future__ import annotations

import threading

import pytest
from made_up_replays import VARIANT, Bench, double

from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.validate.replayer import Run


def test_a_later_edit_is_replayed_from_both_states_at_the_same_time(store):
    together = threading.Barrier(2)

    def later(values):
        together.wait(timeout=60)  # broken unless the other replay comes while this one waits
        values *= 2

    bench = Bench(store, double, double)
    assert bench.judge(variant_runs=1).passed
    bench.keep()
    assert bench.replayed.count(VARIANT) == 2
    bench.kernels[True] = later
    judgement = bench.judge(variant_runs=1)
    assert judgement.passed
    assert judgement.pre_states == 2
    assert bench.replayed.count(VARIANT) == 4


@pytest.mark.parametrize("software", [False, True])
def test_the_first_edit_is_replayed_beside_the_captured_kernel(store, software):
    all_three = threading.Barrier(3)

    def together(values):
        # On the software GPU the captured kernel comes first, then the variant from each state by itself.
        if not software:
            all_three.wait(timeout=60)
        values *= 2

    bench = Bench(store, double, together)
    device = bench.capture.environment.devices[0].model_copy(update={"software": software})
    environment = bench.capture.environment.model_copy(update={"devices": (device,)})
    bench.capture = bench.capture.model_copy(update={"environment": environment})
    bench.kernels[False] = together
    judgement = bench.judge(variant_runs=1)
    assert judgement.passed
    assert judgement.pre_states == 2
    assert sorted(map(str, bench.replayed)) == ["/variant", "/variant", "None"]
    assert len(bench.baselines.kept) == 1


def test_a_replay_that_was_begun_and_took_too_long_is_made_again(store):
    bench = Bench(store, double, double)
    replays = iter([Run(ReplayOutcome.TIMED_OUT, "slow", {})])
    run = bench.run

    def slow_at_first(start, variant, repeats=None):
        return (None if variant else next(replays, None)) or run(start, variant, repeats)

    bench.run = slow_at_first
    judgement = bench.judge()
    assert judgement.passed
    assert judgement.pre_states == 2
    assert [kept.outcome for kept in bench.baselines.kept] == [ReplayOutcome.COMPLETED]


@pytest.mark.parametrize("is_wrong", [False, True])
def test_a_fault_of_a_replay_that_was_begun_ahead_is_no_answer_yet(store, is_wrong):
    def faults_at_first(values):
        values *= 2
        if values[0] != 0 and (is_wrong or not faulted):
            faulted.append(True)
            raise ValueError("no memory for two at once")

    faulted = []
    bench = Bench(store, double, double)
    assert bench.judge().passed
    bench.keep()
    bench.kernels[True] = faults_at_first
    assert bench.judge().passed is not is_wrong
    assert len(faulted) == (2 if is_wrong else 1)
