"""Kernels that do not leave the same each time: captured ones, and variants."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from made_up_replays import COUNT, Bench, double, every, fill

from kerncap_stages.manifests.validation import Mode
from kerncap_stages.validate.compare.bounds import Bounds


def test_a_baseline_that_is_not_deterministic_is_reported_not_punished(store):
    rounds = iter(range(100))

    def unsteady(values):
        values[:] = np.float32(next(rounds))

    verdict = Bench(store, unsteady).judge(variant=None)
    assert verdict.mode is Mode.BASELINE
    assert verdict.passed
    assert verdict.nondeterministic_bytes > 0
    assert "not deterministic" in verdict.reasons[0]
    bench = Bench(store, unsteady, fill)
    verdict = bench.judge()
    assert not verdict.passed
    assert any("a tolerance allows that" in reason for reason in verdict.reasons)


@pytest.mark.parametrize(
    ("left", "passed", "runs"),
    [
        ([5, 1, 1, 1, 2, 9], True, 4),  # the dispatch in the program, then the replays
        ([5, 1, 1, 5, 9], True, 3),
        ([5, 5, 5, 9], True, 2),
        ([5, 1], False, 8),
    ],
)
def test_replays_that_agree_by_chance_are_not_held_against_the_golden_state(store, left, passed, runs):
    values = iter(left)

    def unsteady(memory):
        memory[:] = np.float32(next(values, left[-1]))

    verdict = Bench(store, unsteady).judge(variant=None)
    assert (verdict.passed, verdict.baseline_runs) == (passed, runs)


def test_a_variant_that_is_wrong_now_and_then_fails(store):
    verdict = Bench(store, double, every(10, fill)).judge(perturb=False)
    assert not verdict.passed
    assert any(reason.startswith("not deterministic: 3 of 31 further runs") for reason in verdict.reasons)
    assert any("outputs differ" in reason or "are wrong" in reason for reason in verdict.reasons)


def test_a_variant_that_is_right_in_its_first_run_fails_also_where_nothing_changed(store):
    def only_once():
        calls = iter(range(1 << 30))
        return lambda values: None if next(calls) else fill(values)

    done = np.full(COUNT, 7, np.float32)
    assert not Bench(store, double, every(2, fill)).judge().passed
    bench = Bench(store, fill, before=done)
    one_at_a_time = threading.RLock()
    depth = 0

    def in_a_process_of_its_own(runs):
        def call(*arguments, **options):
            nonlocal depth
            with one_at_a_time:
                if depth == 0:
                    bench.kernels[True] = only_once()
                depth += 1
                try:
                    return runs(*arguments, **options)
                finally:
                    depth -= 1

        return call

    bench.run = in_a_process_of_its_own(bench.run)
    bench.run_in_turn = in_a_process_of_its_own(bench.run_in_turn)
    verdict = bench.judge()
    assert not verdict.passed
    assert verdict.pre_states == 2
    assert bench.judge(variant_runs=1).passed


def test_what_the_captured_kernel_does_not_leave_the_same_either_is_only_told(store):
    verdict = Bench(store, every(2, fill), every(3, fill)).judge(perturb=False)
    assert verdict.passed
    assert any("replays of the captured kernel differ, too" in reason for reason in verdict.reasons)


def test_runs_that_differ_within_the_bounds_pass_and_are_told(store):
    def nearly(values):
        values *= np.float32(2 + 1e-6)

    for variant, passes in ((every(2, nearly), True), (every(2, fill), False)):
        verdict = Bench(store, double, variant).judge(bounds=Bounds(rtol=1e-5))
        assert verdict.passed is passes
        assert any(reason.startswith("not deterministic") for reason in verdict.reasons)


def nearly_double(values):
    values *= np.float32(2 + 1e-6)


def twice_too_much(values):
    values *= 4


@pytest.mark.parametrize(
    ("baseline", "wrong", "passes"),
    [
        (nearly_double, twice_too_much, False),  # its last bits differ
        (nearly_double, nearly_double, True),
        (fill, twice_too_much, True),  # so does all else
    ],
)
def test_with_bounds_only_what_the_captured_kernel_is_as_far_off_in_is_left_out(
    store, baseline, wrong, passes
):
    bench = Bench(store, every(2, baseline), every(2, wrong))
    verdict = bench.judge(bounds=Bounds(rtol=1e-5), perturb=False)
    assert verdict.passed is passes
    told = any(reason.endswith("replays of the captured kernel differ, too") for reason in verdict.reasons)
    assert told is passes


def test_a_steady_variant_says_how_often_it_ran(store):
    verdict = Bench(store, double, double).judge(variant_runs=5)
    assert verdict.passed
    assert not verdict.reasons
    assert verdict.variant_runs == 5


class KeptProcess(Bench):
    """Replays of the captured kernel share a process; one that is wanted apart has another."""

    def __init__(self, store, edit):
        self.here = threading.local()  # two replays run at once

        def captured(values):
            is_captured = values[1] == 1
            values *= 2
            values[0] = 0 if is_captured else self.here.place  # from other states it stores an address

        def variant(values):
            captured(values)
            edit(values)

        super().__init__(store, captured, variant)

    def run(self, start, variant, repeats=None):
        is_apart = repeats is not None and repeats.apart
        self.here.place = 1e6 if variant is not None else 3e6 if is_apart else 2e6
        return replace(super().run(start, variant, repeats), was_kept=variant is None and not is_apart)


@pytest.mark.parametrize(("edit", "passes"), [(lambda _values: None, True), (fill, False)])
def test_what_differs_between_processes_alone_does_not_count(store, edit, passes):
    verdict = KeptProcess(store, edit).judge()
    assert verdict.passed == passes, verdict.reasons
    assert any("not compared in some states" in reason for reason in verdict.reasons) == passes
