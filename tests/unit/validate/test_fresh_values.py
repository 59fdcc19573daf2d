"""Fresh values: inputs that are changed at random, so that no variant can know them."""

from __future__ import annotations

import numpy as np
import pytest
from freshened import TYPES, fresh, make_each
from made_up_replays import BASE

from kerncap_stages.validate.arguments import Span
from kerncap_stages.validate.perturb.address_ranges import AddressRanges
from kerncap_stages.validate.perturb.fresh import Freshness, FreshValues, Variety
from kerncap_stages.validate.perturb.guessed_types import guess_float, guess_integer


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


def test_the_mildest_values_stay_where_they_are():
    values = np.random.default_rng(0).permutation(np.geomspace(1e-30, 1e30, 5000)).astype(np.float32)
    made = fresh(values, "fp32", Freshness.IN_PLACE)
    assert (np.abs(made / values - 1) < 0.13).all()
    indices = np.arange(100, dtype=np.int32)
    assert (fresh(indices, "int32", Freshness.IN_PLACE) == indices).all()


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


@pytest.mark.parametrize("count", [8, 64, 128, 300, 512])
@pytest.mark.parametrize("value", [1, None])
def test_numbers_at_the_start_of_a_page_stay_numbers(count, value):
    """An allocation has at least 4 KiB: weights of a new model are ones, with zeros behind them."""
    values = np.zeros(1024, np.float32)
    values[:count] = value or np.random.default_rng(0).normal(size=count)
    for seed in range(20):
        for freshness in (Freshness.ANY, Freshness.IN_DISTRIBUTION):
            assert (fresh(values, "fp32", freshness, seed)[:count] != 0).mean() >= 0.6
        few = fresh(values, "fp32", Freshness.ANY, seed, variety=Variety.FEW)
        assert (few[:count] != values[:count]).any()
        assert not few[count:].any()


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
    values = np.arange(1, 1001, dtype=np.int32) * 9
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
    before = np.arange(4004, dtype=np.uint32).view(np.uint8)[: 4 * 4003 + 3]
    parts = (Span(0, 4, "int32"), Span(4, 8000, "int16"), Span(8000, before.size, "fp32"))
    (content,) = FreshValues(before, parts, Freshness.ANY, None, 7).make(Variety.ALL)
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


MANY = np.arange(1, 1 + (1 << 20) + 5000, dtype=np.float32)  # more than a slab


@pytest.mark.parametrize("freshness", Freshness)
@pytest.mark.parametrize("variety", [each for each in Variety if each is not Variety.ALL])
@pytest.mark.parametrize(
    ("values", "kind"),
    [(MANY, "fp32"), (MANY[:5000], None), (np.zeros(5000, np.float32), "fp32"), (np.arange(5000), "int64")],
    ids=["fp32", "unknown", "zeros", "int64"],
)
def test_a_state_is_the_same_whether_that_of_all_is_known_or_not(values, kind, variety, freshness):
    known = fresh(values, kind, freshness).view(np.uint8)
    for is_output in (False, True):
        options = {"variety": variety, "is_output": is_output}
        made = fresh(values, kind, freshness, known=known, **options)
        assert (made == fresh(values, kind, freshness, **options)).all()


def test_what_is_known_of_all_is_not_made_again():
    known = np.full(5000, 3.0, np.float32)
    made = fresh(MANY[:5000], "fp32", Freshness.ANY, variety=Variety.FEW, known=known.view(np.uint8))
    assert set(made[made != MANY[:5000]]) == {3.0}


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


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.arange(-1000, 1000, dtype=np.int32), "int32"),
        (np.arange(2000, dtype=np.int64), "int32"),
        (np.arange(2000, dtype=np.int16), None),
        ((np.arange(2000) % 3 == 0).astype(np.uint8), None),
        ((np.arange(2000) % 50 == 0).astype(np.uint8), None),
        (SOME.astype(np.float32), None),
        (np.zeros(2000, np.int32), None),
        (np.full(2000, 1 << 20, np.int32), None),
    ],
    ids=["int32", "int64", "int16", "flags", "few-flags", "fp32", "zeros", "large"],
)
def test_small_integers_are_known_by_their_values(values, kind):
    assert guess_integer(values.view(np.uint8)) == kind


def test_words_that_look_like_small_integers_change_as_integers():
    values = np.arange(1, 5001, dtype=np.int32) % 100
    made = fresh(values, None, Freshness.ANY)
    assert 0.15 < (np.abs(made.astype(np.int64)) > 1 << 20).mean() < 0.35
    assert (fresh(values, None, Freshness.ANY, variety=Variety.SIGNS) < 0).all()
    assert sorted(fresh(values, None, Freshness.IN_DISTRIBUTION)) == sorted(values)


def test_records_of_unknown_types_stay_near():
    """A scale of 16 bits and two numbers of 8 bits, as in blocks of quantised numbers."""
    records = np.zeros(5000, [("scale", np.float16), ("numbers", np.int8, 2)])
    records["scale"] = np.linspace(0.5, 8, 5000)
    records["numbers"] = np.random.default_rng(0).integers(-100, 100, (5000, 2))
    made = fresh(records, None, Freshness.NEAR)
    assert np.abs(made["scale"] / records["scale"] - 1).max() < 0.4
    assert np.abs(made["numbers"].astype(int) - records["numbers"]).max() == 1
    assert (made != records).mean() > 0.9
    numbers = np.arange(5000, dtype=np.int32)
    assert (fresh(numbers, "int32", Freshness.NEAR) == numbers).all()


def test_words_that_look_like_floats_change_as_floats():
    values = np.linspace(1, 100, 5000).astype(np.float32)
    made = fresh(values, None, Freshness.ANY)
    assert 0.4 < (made < 0).mean() < 0.6
    assert np.abs(made).max() <= 100
    assert (fresh(values, None, Freshness.IN_DISTRIBUTION) > 0).all()
    assert (fresh(values, None, Freshness.IN_DISTRIBUTION, variety=Variety.MIRRORED) < 0).any()


@pytest.mark.parametrize("freshness", [Freshness.ANY, Freshness.IN_DISTRIBUTION])
@pytest.mark.parametrize("seed", range(20))
def test_scales_of_quantised_blocks_stay_numbers(freshness, seed):
    generator = np.random.default_rng(7)
    blocks = np.zeros(64, np.dtype([("scale", np.float16), ("sum", np.float16), ("numbers", np.int8, 32)]))
    blocks["scale"], blocks["sum"] = generator.uniform(0.01, 0.1, 64), generator.normal(0, 1, 64)
    blocks["numbers"] = generator.integers(-128, 128, (64, 32))
    made = fresh(blocks.view(np.uint8), None, freshness, seed=seed).view(blocks.dtype)
    assert np.isfinite(made["scale"]).all()
    assert np.isfinite(made["sum"]).all()
    assert (made["scale"] != blocks["scale"]).mean() > 0.9
    assert (made["numbers"] != blocks["numbers"]).mean() > 0.9
    assert (made["numbers"] < -120).mean() > 0.01


@pytest.mark.parametrize("element_type", TYPES)
def test_an_additive_mask_gets_numbers_in_place_of_its_zeros(element_type):
    mask = np.zeros((64, 64), TYPES[element_type])
    mask[np.triu_indices(64, 1)] = -np.inf
    mask = mask.reshape(-1)
    made = fresh(mask, element_type, Freshness.ANY)
    numbers = made[np.isfinite(made)]
    assert numbers.size == np.count_nonzero(mask == 0)
    assert ((np.abs(numbers) >= 0.5) & (np.abs(numbers) < 1)).all()
    assert (np.isfinite(made) != np.isfinite(mask)).mean() > 0.4
    mirrored = fresh(mask, element_type, Freshness.ANY, variety=Variety.MIRRORED)
    assert (mirrored == np.where(np.isfinite(made), -made, made)).all()
    moved = fresh(mask, element_type, Freshness.IN_DISTRIBUTION)
    assert (np.sort(moved) == np.sort(mask)).all()
