"""The judge's rules on made-up replays: a variant against the captured kernel, from several states."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_up_replays import BASE, COUNT, Bench, double, fill

from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.manifests.validation import Coverage
from kerncap_stages.validate.compare.bounds import Bounds
from kerncap_stages.validate.replays.replayer import Run


def test_in_place_work_is_compared_from_several_states(store):
    verdict = Bench(store, double, double).judge()
    assert verdict.passed
    assert verdict.pre_states == 2
    assert verdict.coverage.value == "perturbed"


def test_a_variant_that_only_knows_the_captured_answer_fails(store):
    answer = 2 * np.arange(COUNT, dtype=np.float32)

    def cheat(values):
        values[:] = answer

    assert not Bench(store, double, cheat).judge().passed


@pytest.mark.parametrize("bounds", [Bounds(), Bounds(ulp=1), Bounds(atol=1e-3), Bounds(rtol=1e-3)])
def test_doing_nothing_where_nothing_changed_fails_under_any_bounds(store, bounds):
    done = np.full(COUNT, 7, np.float32)
    bench = Bench(store, fill, lambda _: None, before=done)
    verdict = bench.judge(bounds=bounds)
    assert not verdict.passed
    assert "does not write it" in verdict.reasons[0]
    assert Bench(store, fill, fill, before=done).judge(bounds=bounds).passed


def test_only_an_output_that_stays_as_it_was_is_taken_for_not_written(store):
    def add_one(values):
        fill(values)
        values += 1

    reasons = Bench(store, fill, add_one).judge().reasons
    assert any(reason.startswith("all elements of an output are wrong: data") for reason in reasons)
    assert not any("does not write it" in reason for reason in reasons)


def add_three(values):
    values += 3


def set_three(values):
    values[:] = 3


@pytest.mark.parametrize("bounds", [Bounds(), Bounds(atol=1e-4)])
@pytest.mark.parametrize(("baseline", "wrong"), [(add_three, set_three), (set_three, add_three)])
def test_adding_is_told_from_setting_where_there_were_zeros(store, baseline, wrong, bounds):
    zeros = np.zeros(COUNT, np.float32)
    assert Bench(store, baseline, baseline, before=zeros).judge(bounds=bounds).passed
    assert not Bench(store, baseline, wrong, before=zeros).judge(bounds=bounds).passed


def clamp(values):
    np.minimum(values, 5, out=values)


def rectify(values):
    np.maximum(values, 0, out=values)


@pytest.mark.parametrize("kernel", [clamp, rectify])
def test_a_write_that_only_some_values_lead_to_is_looked_for_under_bounds(store, kernel):
    done = np.arange(COUNT, dtype=np.float32) % 6
    bounds = Bounds(rtol=1e-5)
    assert Bench(store, kernel, kernel, before=done).judge(bounds=bounds).passed
    verdict = Bench(store, kernel, lambda _: None, before=done).judge(bounds=bounds)
    assert not verdict.passed
    assert any("differ" in reason or "does not write it" in reason for reason in verdict.reasons)


def test_an_output_that_is_written_whatever_was_there_takes_one_changed_state(store):
    bench = Bench(store, fill, fill)
    assert bench.judge(bounds=Bounds(rtol=1e-5), variant_runs=1).passed
    assert bench.replayed.count(None) == 1


def replace_large(values):
    values[values > 0.5] = 0.25


def bear_twice_as_much(values):
    if values.max() > 20:
        raise ValueError("out of bounds")
    values[:] = 7


@pytest.mark.parametrize(("kernel", "left"), [(replace_large, 0.25), (bear_twice_as_much, 7)])
def test_without_bounds_numbers_are_changed_as_far_as_the_kernel_bears(store, kernel, left):
    done = np.full(COUNT, left, np.float32)
    verdict = Bench(store, kernel, kernel, before=done).judge()
    assert verdict.passed
    assert verdict.coverage is Coverage.PERTURBED
    verdict = Bench(store, kernel, lambda _: None, before=done).judge()
    assert not verdict.passed
    assert "does not write it" in verdict.reasons[0]


def test_states_for_a_comparison_with_bounds_are_none_for_one_without(store):
    bench = Bench(store, double, double)
    assert bench.judge().passed
    bench.keep()
    bench.replayed.clear()
    assert bench.judge(bounds=Bounds(ulp=1)).passed
    assert bench.replayed.count(None) == 2
    bench.keep()
    bench.replayed.clear()
    assert bench.judge().passed
    assert bench.judge(bounds=Bounds(rtol=1e-5)).passed
    assert None not in bench.replayed


def follow(values):
    """Fill what lies beside an address that the kernel has to follow."""
    if values.view(np.uint64)[0] != BASE + 8:
        raise ValueError("fault")
    values[2:] = 7


def test_outputs_beside_an_address_are_tried_without_changing_it(store):
    done = np.full(COUNT, 7, np.float32)
    done.view(np.uint64)[0] = BASE + 8
    verdict = Bench(store, follow, follow, before=done).judge()
    assert verdict.passed
    assert verdict.coverage is Coverage.DIFFERENCE
    assert "everywhere" in verdict.reasons[0]
    verdict = Bench(store, follow, lambda _: None, before=done).judge()
    assert not verdict.passed
    assert "does not write it" in verdict.reasons[0]


def test_a_state_in_which_no_address_is_spared_is_not_replayed_twice(store):
    def bear_nothing(values):
        if (values != 7).any():
            raise ValueError("fault")

    bench = Bench(store, bear_nothing, bear_nothing, before=np.full(COUNT, 7, np.float32))
    assert not bench.judge().passed
    assert bench.replayed.count(None) == 2  # numbers four times as large, and twice as large


def test_doing_nothing_fails_under_bounds_wider_than_what_the_kernel_changes(store):
    def drift(values):
        values += 1e-5

    def drift_at_the_end(values):
        values[-1] += 1e-5

    before = np.ones(COUNT, np.float32)
    verdict = Bench(store, drift, lambda _: None, before=before).judge(bounds=Bounds(atol=1e-2))
    assert not verdict.passed
    assert any(
        "the variant changes nothing, and is within the bounds" in reason for reason in verdict.reasons
    )
    for right in (drift, drift_at_the_end):
        bench = Bench(store, drift, right, before=before)
        assert bench.judge(bounds=Bounds(atol=1e-2)).passed


def test_within_a_bound_on_a_repeated_dispatch_is_no_stray_write(store):
    done = np.full(COUNT, 7, np.float32)

    def nearly(values):
        values[:] = np.nextafter(np.float32(7), np.float32(8))

    assert Bench(store, fill, nearly, before=done).judge(bounds=Bounds(ulp=1)).passed
    verdict = Bench(store, fill, nearly, before=done).judge()
    assert not verdict.passed
    assert not any("where the captured kernel does not" in reason for reason in verdict.reasons)


ADDED = np.where(np.arange(COUNT) % 2, 0, 0.37).astype(np.float32)  # the last one is zero


@pytest.mark.parametrize(
    ("bounds", "place", "passes"),
    [
        (Bounds(rtol=1e-5), None, True),
        (Bounds(atol=1e-4), None, True),
        (Bounds(), None, False),
        (Bounds(rtol=1e-5), 7, False),
        (Bounds(rtol=1e-5), COUNT - 1, False),
    ],
)
def test_a_rounding_of_elements_that_an_update_leaves_as_they_were_is_no_stray_write(
    store, bounds, place, passes
):
    def add(values):
        values += ADDED

    def add_otherwise(values):
        values[:] = np.nextafter(values + ADDED, np.float32(np.inf))
        if place is not None:
            values[place] *= 1.001

    before = np.arange(1, COUNT + 1, dtype=np.float32)
    verdict = Bench(store, add, add_otherwise, before=before).judge(bounds=bounds)
    assert verdict.passed is passes
    assert any("where the captured kernel does not" in reason for reason in verdict.reasons) is not passes


def test_an_absolute_bound_holds_also_from_changed_states(store):
    def nearly(values):
        values *= 2
        values += np.float32(0.9e-3)

    large = np.linspace(1, 2, COUNT, dtype=np.float32)
    assert Bench(store, double, nearly, before=large).judge(bounds=Bounds(atol=1e-3)).passed


def test_a_baseline_that_bears_no_change_is_said_to(store):
    start = np.arange(COUNT, dtype=np.float32)

    def careful(values):
        if not np.array_equal(values, start):
            raise ValueError("out of bounds")
        values *= 2

    verdict = Bench(store, careful, double).judge()
    assert verdict.passed
    assert verdict.coverage.value == "difference"
    assert "could not be perturbed" in verdict.reasons[0]


def test_a_faulting_variant_fails_with_its_words(store):
    def fault(_):
        raise ValueError("page fault at 0x10")

    verdict = Bench(store, double, fault).judge()
    assert not verdict.passed
    assert "faulted: page fault at 0x10" in verdict.reasons[0]


def test_a_replay_that_leaves_a_region_out_is_no_pass(store):
    bench = Bench(store, double, double)
    bench.run = lambda *_, **__: Run(ReplayOutcome.COMPLETED, None, {})
    verdict = bench.judge()
    assert not verdict.passed
    assert "no state of region" in verdict.reasons[0]


@pytest.mark.parametrize(
    ("baseline_too", "passes"), [((), False), (((0x1000, 4),), False), (((0x1000, 64),), True)]
)
def test_what_a_variant_writes_outside_of_captured_memory_fails_it(store, baseline_too, passes):
    bench = Bench(store, double, double)

    run = bench.run

    def with_outside(start, variant, repeats=None):
        outside = baseline_too if variant is None else ((0x1000, 8), (0x1020, 4))
        return replace(run(start, variant, repeats), outside=outside)

    bench.run = with_outside
    verdict = bench.judge()
    assert verdict.passed is passes
    assert passes or "outside of all captured memory" in verdict.reasons[0]
