"""Fresh values: inputs that are changed at random, so that no variant can know them."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_replays import BASE, COUNT, Bench, double

from kerncap_stages.validate.arguments import Span
from kerncap_stages.validate.compare.bounds import Bounds
from kerncap_stages.validate.compare.scaled_bounds import grow_tolerance
from kerncap_stages.validate.fresh_inputs import FreshInputs
from kerncap_stages.validate.judgement import ROUNDS_OTHERWISE
from kerncap_stages.validate.perturb.address_ranges import AddressRanges
from kerncap_stages.validate.perturb.fresh import Freshness, Variety, freshen
from kerncap_stages.validate.perturb.guessed_types import guess_float

TYPES = {"fp64": np.float64, "fp32": np.float32, "fp16": np.float16}


def fresh(values, element_type, freshness, seed=1, ranges=None, variety=Variety.ALL, **options):
    content = values.copy().view(np.uint8).reshape(-1)
    parts = (Span(0, content.size, element_type),)
    freshen(content, parts, freshness, ranges, seed, variety, **options)
    return content.view(values.dtype)


def make_each(values, element_type, freshness, **options):
    """The states of one seed."""
    return {each: fresh(values, element_type, freshness, variety=each, **options) for each in Variety}


@pytest.mark.parametrize("freshness", Freshness)
@pytest.mark.parametrize("element_type", TYPES)
def test_floats_change_their_place_and_by_an_eighth_at_most(element_type, freshness):
    values = np.linspace(1, 100, 5000).astype(TYPES[element_type])
    made = fresh(values, element_type, freshness)
    assert (made != values).mean() > 0.9
    assert np.abs(made).max() <= values.max()
    assert (np.sort(np.abs(made)) / values).max() < 1.13
    assert (fresh(values[:1].repeat(100), element_type, freshness) != values[0]).mean() > 0.9
    assert (made < 0).any() == (freshness is Freshness.ANY)
    assert (made != fresh(values, element_type, freshness, seed=2)).mean() > 0.9
    assert (made == fresh(values, element_type, freshness)).all()


def test_brain_floats_stay_in_distribution():
    values = (np.linspace(1, 100, 5000).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    made = fresh(values, "bf16", Freshness.IN_DISTRIBUTION)
    assert (made != values).mean() > 0.9
    assert values.min() <= made.min()
    assert made.max() <= values.max()


@pytest.mark.parametrize("special", [0.0, np.nan, np.inf, -np.inf])
def test_special_numbers_stay_as_many(special):
    values = np.array([special, 3.0] * 500, np.float32)
    made = fresh(values, "fp32", Freshness.ANY)
    assert np.isfinite(made).sum() == np.isfinite(values).sum()
    assert (made == 0).sum() == (values == 0).sum()
    assert np.isnan(made).sum() == np.isnan(values).sum()


@pytest.mark.parametrize("element_type", TYPES)
def test_an_input_of_zeros_becomes_numbers_unless_values_stay_in_distribution(element_type):
    values = np.zeros(5000, TYPES[element_type])
    made = fresh(values, element_type, Freshness.ANY)
    assert ((np.abs(made) >= 0.5) & (np.abs(made) < 1)).all()
    assert 0.4 < (made < 0).mean() < 0.6
    assert len(np.unique(made)) > 100
    for freshness in (Freshness.IN_DISTRIBUTION, Freshness.FLOATS):
        assert not fresh(values, element_type, freshness).any()


@pytest.mark.parametrize("freshness", Freshness)
def test_a_small_input_in_a_large_allocation_is_not_lost_among_its_zeros(freshness):
    values = np.zeros(64 << 10, np.float32)
    values[4096 : 4096 + 256] = np.random.default_rng(0).normal(size=256)
    values[9000 : 9000 + 64] = np.linspace(1, 2, 64)
    for seed in range(20):
        made = fresh(values, "fp32", freshness, seed)
        assert (made[4096 : 4096 + 256] != 0).mean() > 0.6
        assert (made[9000 : 9000 + 64] != 0).mean() > 0.6
        assert (made[4096 : 4096 + 256] != values[4096 : 4096 + 256]).mean() > 0.9


@pytest.mark.parametrize("freshness", [Freshness.ANY, Freshness.IN_DISTRIBUTION])
def test_a_mask_of_long_runs_changes_in_both(freshness):
    mask = np.zeros(1024, np.int32)
    mask[:60] = 1
    single = np.zeros(1024, np.int32)
    single[500] = 1
    for seed in range(20):
        made = fresh(mask, "int32", freshness, seed)
        assert (made[:60] == 0).any()
        assert made[60:].any()
    moved = [fresh(single, "int32", freshness, seed)[500] != 1 for seed in range(20)]
    assert sum(moved) > 15


def test_indices_stay_indices_in_distribution():
    indices = np.random.default_rng(0).permutation(1000).astype(np.int32)
    made = fresh(indices, "int32", Freshness.IN_DISTRIBUTION)
    assert (np.sort(made) == np.arange(1000)).all()
    assert (made != indices).mean() > 0.9
    assert (fresh(indices, "int32", Freshness.FLOATS) == indices).all()


def test_integers_without_bounds_get_high_bits_and_other_signs():
    values = np.arange(1, 1001, dtype=np.int32)
    made = fresh(values, "int32", Freshness.ANY)
    assert 0.1 < (made < 0).mean() < 0.3
    assert (np.abs(made.astype(np.int64)) > 1 << 16).mean() > 0.15
    assert (made == 0).mean() > 0.05
    assert np.isin(made, values).mean() > 0.5
    flag = np.ones(1, np.int32)
    assert all(fresh(flag, "int32", Freshness.ANY, seed) != flag for seed in range(20))


def test_addresses_and_null_pointers_keep_their_places():
    records = np.zeros((100, 2), np.uint64)
    records[:, 0] = BASE + 8 * np.arange(100)
    records[50, 0] = 0
    records[:, 1] = np.arange(1, 101)
    made = fresh(records.reshape(-1), "int64", Freshness.ANY, ranges=AddressRanges([(BASE, 800)]))
    made = made.reshape(100, 2)
    assert (made[:, 0] == records[:, 0]).all()
    assert (made[:, 1] != records[:, 1]).mean() > 0.9


def test_parts_have_their_own_types_wherever_they_begin():
    content = np.arange(4004, dtype=np.uint32).view(np.uint8)[: 4 * 4003 + 3].copy()
    before = content.copy()
    parts = (Span(0, 4, "int32"), Span(4, 8000, "int16"), Span(8000, content.size, "fp32"))
    freshen(content, parts, Freshness.ANY, None, 7)
    assert (content[4:8000] != before[4:8000]).any()
    assert (content[-3:] == before[-3:]).all()  # no whole element


@pytest.mark.parametrize("element_type", TYPES)
def test_each_number_has_both_signs_in_states_of_one_seed(element_type):
    values = np.linspace(1, 100, 5000).astype(TYPES[element_type])
    values[4000:] = 0
    made = make_each(values, element_type, Freshness.ANY)
    usual = made[Variety.ALL] != 0
    assert (made[Variety.MIRRORED][usual] == -made[Variety.ALL][usual]).all()
    holes = ~usual & (values != 0)
    assert holes.any()
    assert (made[Variety.MIRRORED][holes] == -made[Variety.ZEROS][holes]).all()
    assert made[Variety.MIRRORED][holes].all()
    assert 0.2 < (made[Variety.ZEROS][usual] == 0).mean() < 0.3
    few, others = (made[each] != values for each in (Variety.FEW, Variety.FEW_OTHERS))
    assert 1 <= few.sum() < 20
    assert 1 <= others.sum() < 20
    assert not (few & others).any()


@pytest.mark.parametrize("element_type", TYPES)
def test_half_of_the_signs_change_in_distribution_and_the_others_beside_more_zeros(element_type):
    values = np.linspace(1, 100, 5000).astype(TYPES[element_type])
    made = make_each(values, element_type, Freshness.IN_DISTRIBUTION)
    mirrored, zeros = made[Variety.MIRRORED], made[Variety.ZEROS]
    assert (np.abs(mirrored) == made[Variety.ALL]).all()
    assert 0.4 < (mirrored < 0).mean() < 0.6
    assert ((zeros == -mirrored) | (zeros == 0)).all()
    assert 0.2 < (zeros == 0).mean() < 0.3


def test_of_single_numbers_few_are_one():
    """There is no other one."""
    values = np.ones(1, np.float32)
    made = make_each(values, "fp32", Freshness.ANY)
    assert made[Variety.FEW] != values
    assert made[Variety.FEW_OTHERS] == values


def test_old_zeros_of_outputs_alone_become_numbers_beside_more_zeros():
    values = np.zeros(1000, np.float32)
    made = make_each(values, "fp32", Freshness.ANY)
    assert made[Variety.MIRRORED].all()
    assert not made[Variety.ZEROS].any()
    assert fresh(values, "fp32", Freshness.ANY, variety=Variety.ZEROS, is_output=True).any()


def test_signed_integers_are_negated_and_others_are_not():
    for kind, dtype in (("int32", np.int32), ("uint32", np.uint32)):
        made = make_each(np.arange(1, 1001, dtype=dtype), kind, Freshness.ANY)
        wanted = -made[Variety.ALL] if kind == "int32" else made[Variety.ALL]
        assert (made[Variety.MIRRORED] == wanted).all()
        assert (made[Variety.ZEROS] == made[Variety.ALL]).all()


SOME = np.random.default_rng(0).normal(size=2000)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (SOME.astype(np.float32), "fp32"),
        (np.arange(1, 2001, dtype=np.float32), "fp32"),
        (SOME.astype(np.float16), "fp16"),
        ((SOME.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16), "bf16"),
        (np.arange(1, 2001, dtype=np.float64), "fp64"),
        (SOME, None),  # of many digits
        (np.arange(2000, dtype=np.int32), None),
        (np.arange(2000, dtype=np.int64), None),
        (np.ones(2000, np.uint8), None),
        (np.random.default_rng(0).integers(0, 1 << 32, 2000, np.uint32), None),
        (np.zeros(2000, np.float32), None),
    ],
    ids=["fp32", "whole", "fp16", "bf16", "fp64", "digits", "int32", "int64", "flags", "random", "zeros"],
)
def test_floats_are_known_by_their_values(values, kind):
    assert guess_float(values.view(np.uint8)) == kind


def test_words_that_look_like_floats_change_as_floats():
    values = np.linspace(1, 100, 5000).astype(np.float32)
    made = fresh(values, None, Freshness.ANY)
    assert 0.4 < (made < 0).mean() < 0.6
    assert np.abs(made).max() <= 100
    assert (fresh(values, None, Freshness.IN_DISTRIBUTION) > 0).all()
    assert (fresh(values, None, Freshness.IN_DISTRIBUTION, variety=Variety.MIRRORED) < 0).any()


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
    bench.capture = bench.capture.model_copy(update={"environment": software(bench.capture.environment)})
    assert bench.judge(seed=1).passed
    # Together; by itself with two kinds of values; together with milder ones. Then few elements, few others,
    # other signs, and more zeros; the last two are not borne.
    assert bench.fresh == 8
    bench.keep()
    bench.fresh = 0
    assert bench.judge(seed=2).passed
    assert bench.fresh == 5


def software(environment):
    """The same machine with the software GPU: nothing is replayed ahead there."""
    device = environment.devices[0].model_copy(update={"software": True})
    return environment.model_copy(update={"devices": (device,)})


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
    fresh = FreshInputs(None, [], None, None, None, is_exact=True, seed=1)
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
        assert [reason for reason in verdict.reasons if "were not tried" in reason] == [
            f"{what} in the inputs were not tried: the captured kernel gives "
            f"{'NaN and infinity alone' if bounds.is_exact else 'more NaNs or infinities'} then"
            for what in ("other signs", "more zeros")
        ]
        assert len(verdict.fresh_starts) == 3  # all elements, few, and few others
        assert (
            not Bench(store, sum_roots, know_sum_of_roots, before=START)
            .judge(bounds=bounds, seed=seed)
            .passed
        )


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
