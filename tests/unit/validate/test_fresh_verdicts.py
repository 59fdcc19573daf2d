"""Verdicts from fresh values: what the captured kernel bears, what is left out, and how bounds grow."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_replays import COUNT, Bench, choose_device, double

from kerncap_stages.validate.compare.bounds import Bounds
from kerncap_stages.validate.compare.scaled_bounds import grow_tolerance
from kerncap_stages.validate.fresh_states import FreshInputs
from kerncap_stages.validate.judgement import ROUNDS_OTHERWISE, SPECIAL_ALIKE

START = np.random.default_rng(0).permutation(COUNT).astype(np.float32)


def square_root(values):
    np.sqrt(np.abs(values), out=values, where=values >= 0)


def square_root_of_all(values):
    np.sqrt(np.abs(values), out=values)


def test_a_kernel_that_loses_signs_fails_though_no_captured_value_is_negative(store):
    bench = Bench(store, square_root, square_root_of_all, before=START)
    verdict = bench.judge(seed=3)
    assert not verdict.passed
    assert any("--seed 3" in reason for reason in verdict.reasons)
    assert verdict.seed == 3
    assert Bench(store, square_root, square_root, before=START).judge(seed=3).passed


def ascend(values):
    values[1:] = values[1:] * (values[1:] > values[:-1])


def expect_order(values):
    """It knows which elements are larger than the one before."""
    values[1:] = values[1:] * (START[1:] > START[:-1])


@pytest.mark.parametrize("bounds", [Bounds(), Bounds(rtol=1e-5), Bounds(ulp=2), Bounds(atol=1e-3)])
def test_order_that_light_changes_leave_is_no_longer_known(store, bounds):
    for seed in range(20):
        assert Bench(store, ascend, ascend, before=START).judge(bounds=bounds, seed=seed).passed
        assert not Bench(store, ascend, expect_order, before=START).judge(bounds=bounds, seed=seed).passed


def test_a_captured_kernel_that_bears_no_fresh_values_is_noted(store):
    def bear_ascending(values):
        if (np.diff(values) < 0).any() or (values < 0).any():
            raise ValueError("out of bounds")
        double(values)

    start = np.arange(COUNT, dtype=np.float32)
    verdict = Bench(store, bear_ascending, bear_ascending, before=start).judge(seed=3)
    assert verdict.passed
    assert verdict.seed is None
    assert any("kept their captured values" in reason for reason in verdict.reasons)


def test_later_verdicts_know_what_each_input_bears(store):
    def bear_positive(values):
        if (values < 0).any():
            raise ValueError("out of bounds")
        double(values)

    bench = Bench(store, bear_positive, bear_positive, before=START)
    choose_device(bench, software=True)  # nothing is replayed ahead there
    assert bench.judge(seed=1).passed
    # Together; by itself with two kinds of values; together with milder ones. Then few elements, few others,
    # other signs in two states, and more zeros; the last three are not borne.
    assert bench.fresh == 9
    bench.keep()
    bench.fresh = 0
    assert bench.judge(seed=2).passed
    assert bench.fresh == 6


def test_without_a_seed_and_in_quick_verdicts_inputs_keep_their_values(store):
    for settings in ({}, {"seed": 1, "perturb": False}):
        bench = Bench(store, double, double, before=START)
        assert bench.judge(**settings).seed is None
        assert not bench.fresh


def sum_up(values):
    values[:] = values.sum(dtype=np.float32)


def round_sum(values):
    """As a sum in a type of 8 bits of mantissa is."""
    values[:] = (values.sum(dtype=np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def sum_up_by_halves(values):
    half = COUNT // 2
    values[:] = values[:half].sum(dtype=np.float32) + values[half:].sum(dtype=np.float32)


def test_rounding_of_fresh_values_alone_is_noted(store):
    """Sums of small integers are exact in any order; those of fresh values are not."""
    for seed in range(20):
        verdict = Bench(store, sum_up, sum_up_by_halves, before=np.ones(COUNT, np.float32)).judge(seed=seed)
        assert verdict.passed
        assert verdict.reasons in ((), (ROUNDS_OTHERWISE,))
        assert verdict.seed == seed
        assert not Bench(store, sum_up, round_sum, before=np.ones(COUNT, np.float32)).judge(seed=seed).passed


def test_another_order_of_sums_passes_within_bounds_from_any_seed(store):
    start = np.random.default_rng(1).normal(size=COUNT).astype(np.float32)
    for seed in range(20):
        bench = Bench(store, sum_up, sum_up_by_halves, before=start)
        assert bench.judge(bounds=Bounds(rtol=1e-4), seed=seed).passed


def test_where_no_fresh_values_are_borne_none_are_tried_again(monkeypatch):
    sought = []

    def seek(self):
        sought.append(self)

    monkeypatch.setattr(FreshInputs, "_find_baseline", seek)
    fresh = FreshInputs(None, [], [], None, None, None, is_exact=True, seed=1)
    assert [fresh.find_baseline(), fresh.find_baseline(), fresh.guess_start()] == [None, None, None]
    assert sought == [fresh]


def sum_roots(values):
    """From any negative number all of them become NaN."""
    with np.errstate(invalid="ignore"):
        values[:] = np.sqrt(values).sum() + values


KNOWN = START.copy()
sum_roots(KNOWN)


def know_sum_of_roots(values):
    """It spreads NaNs as the kernel does, and else gives what is right for the captured values."""
    with np.errstate(invalid="ignore"):
        values[:] = np.where(np.isnan(np.sqrt(values).sum()), np.float32(np.nan), KNOWN)


@pytest.mark.parametrize("bounds", [Bounds(), Bounds(rtol=1e-5)])
def test_states_that_give_nans_alone_are_left_out_and_named(store, bounds):
    for seed in range(20):
        verdict = Bench(store, sum_roots, sum_roots, before=START).judge(bounds=bounds, seed=seed)
        assert verdict.passed
        no_numbers = "NaN and infinity alone"
        why = no_numbers if bounds.is_exact else "more NaNs or infinities"
        states = (
            "the captured values with other signs",
            "other signs in the inputs",
            "more zeros in the inputs",
        )
        left_out = dict.fromkeys(states, why)
        if bounds.is_exact:
            left_out = {"the strongest fresh values of data (float*)": no_numbers, **left_out}
        assert [reason for reason in verdict.reasons if "were not tried" in reason] == [
            f"{what} were not tried: the captured kernel gives {why} then" for what, why in left_out.items()
        ]
        assert len(verdict.fresh_starts) == 3  # all elements, few, and few others
        assert not verdict.inputs_kept
        assert (
            not Bench(store, sum_roots, know_sum_of_roots, before=START)
            .judge(bounds=bounds, seed=seed)
            .passed
        )


def test_later_verdicts_know_which_values_cost_outputs_their_numbers(store):
    bench = Bench(store, sum_roots, sum_roots, before=START)
    choose_device(bench, software=True)  # nothing is replayed ahead there
    said = bench.judge(seed=1).reasons
    # Six states with the strongest values; two kinds of values by themselves; six states with milder ones.
    assert bench.fresh == 14
    bench.keep()
    bench.fresh = 0
    assert bench.judge(seed=2).reasons == said
    assert bench.fresh == 6


def sum_if_known(values):
    """From anything but the captured state all of it becomes NaN."""
    values[:] = values.sum() if (values == START).all() else np.float32(np.nan)


def test_a_kernel_that_gives_nans_alone_from_all_fresh_values_is_not_said_to_be_tried(store):
    verdict = Bench(store, sum_if_known, sum_if_known, before=START).judge(seed=2)
    assert verdict.passed
    assert not verdict.fresh_starts
    assert verdict.inputs_kept
    assert [reason for reason in verdict.reasons if "were not tried" in reason] == [
        "fresh values of the inputs were not tried: the captured kernel gives NaN and infinity alone then"
    ]


@pytest.mark.parametrize("captured", [1e-3, 0.0])
def test_an_absolute_tolerance_grows_where_inputs_of_zeros_become_numbers(captured):
    """It was chosen for outputs as the captured ones are; the zeros become numbers of about one."""
    kind = np.float32
    before, golden = np.zeros(8, kind), np.full(8, captured, kind)
    zeros, ones = np.zeros(8, kind), np.linspace(1, 2, 8, dtype=kind)
    as_bytes = [[each.view(np.uint8) for each in pair] for pair in ((before, golden), (zeros, ones))]
    grown = grow_tolerance(Bounds(atol=1e-7), *as_bytes, "fp32")
    assert grown.atol == pytest.approx(2e-4 if captured else 2 * 2.0**-12)
    assert grow_tolerance(Bounds(atol=0.01), *as_bytes, "fp32").atol == pytest.approx(
        2 * 2.0**-6 if captured else 0.01
    )
    assert grow_tolerance(Bounds(rtol=1e-7), *as_bytes, "fp32") == Bounds(rtol=1e-7)


def overflow(values):
    """With negative numbers it multiplies an infinity by zero."""
    with np.errstate(over="ignore", invalid="ignore"):
        values += np.exp(-1000 * values) * 0


def overflow_to_infinity(values):
    values[values < 0] = np.inf


def overflow_to_zero(values):
    values[values < 0] = 0


def test_which_special_number_fresh_values_give_is_not_compared(store):
    start = START + 1
    for seed in range(10):
        verdict = Bench(store, overflow, overflow_to_infinity, before=start).judge(seed=seed)
        assert verdict.passed
        assert SPECIAL_ALIKE in verdict.reasons
        assert not Bench(store, overflow, overflow_to_zero, before=start).judge(seed=seed).passed


def overflow_below(values):
    values[values < 0] = -np.inf


def test_the_sign_of_an_infinity_is_compared(store):
    start = START + 1
    for seed in range(10):
        assert not Bench(store, overflow_to_infinity, overflow_below, before=start).judge(seed=seed).passed


def test_special_numbers_that_were_captured_are_compared(store):
    start = START + 1
    start[7] = -1
    for seed in range(10):
        assert not Bench(store, overflow, overflow_to_infinity, before=start).judge(seed=seed).passed
        assert Bench(store, overflow, overflow, before=start).judge(seed=seed).passed


ROW = 16  # elements that a kernel reads, of a memory with others


def normalise(values):
    with np.errstate(over="ignore"):
        values[:ROW] /= np.sqrt(np.square(values[:ROW]).sum())


def test_a_row_beside_much_larger_numbers_has_fresh_values(store):
    start = np.full(COUNT, 1e30, np.float32) * np.linspace(1, 2, COUNT, dtype=np.float32)
    start[:ROW] = np.linspace(1, 2, ROW)
    known = start.copy()
    normalise(known)

    def know_row(values):
        if (np.abs(values[:ROW] / start[:ROW] - 1) < 0.13).all():
            values[:ROW] = known[:ROW]
        else:
            normalise(values)

    right = Bench(store, normalise, normalise, before=start).judge(seed=3)
    assert right.passed
    assert right.seed == 3, right.reasons
    assert not Bench(store, normalise, know_row, before=start).judge(seed=3).passed
