"""Fresh values of integers, flags, scalars, and what integers only store."""

from __future__ import annotations

import numpy as np
import pytest
from freshened import TYPES, fresh, make_each

from kerncap_stages.validate.perturb.fresh import Freshness, Variety


def test_signed_integers_are_negated_and_others_are_not():
    for kind, dtype in (("int32", np.int32), ("uint32", np.uint32)):
        made = make_each(np.arange(1, 1001, dtype=dtype) * 9, kind, Freshness.ANY)
        wanted = -made[Variety.ALL] if kind == "int32" else made[Variety.ALL]
        assert (made[Variety.MIRRORED] == wanted).all()
        assert (made[Variety.ZEROS] == made[Variety.ALL]).all()


@pytest.mark.parametrize("variety", [variety for variety in Variety if variety is not Variety.SIGNS])
def test_integers_that_may_be_places_in_an_output_only_change_places(variety):
    """Each place is written once, then as before."""
    values = np.zeros(1024, np.int32)
    values[:300] = np.arange(300) * 7 % 300
    made = fresh(values, "int32", Freshness.ANY, variety=variety)
    assert (np.sort(made) == np.sort(values)).all()
    moved = (made != values).sum()
    assert (2 <= moved <= 4) if variety in (Variety.FEW, Variety.FEW_OTHERS) else moved > 250


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_each_integer_becomes_any_number_of_the_other_sign_in_one_state(kind):
    bits = 8 * np.dtype(kind).itemsize
    values = np.arange(5000).astype(kind)
    made = fresh(values, kind, Freshness.ANY, variety=Variety.SIGNS)
    unsigned = kind if kind[0] == "u" else f"u{kind}"
    changed = (made ^ values).view(unsigned).astype(np.uint64) >> np.uint64(bits - 2)
    assert (changed >= 2).all()
    assert 0.45 < (changed & np.uint64(1)).mean() < 0.55


@pytest.mark.parametrize("kind", ["int32", "uint8"])
def test_flags_keep_their_places_where_signs_change(kind):
    values = (np.arange(5000) % 3 == 0).astype(kind)
    assert (fresh(values, kind, Freshness.ANY, variety=Variety.SIGNS) == values).all()


@pytest.mark.parametrize("variety", Variety)
def test_flags_in_bytes_stay_flags(variety):
    values = (np.arange(5000) % 3 == 0).astype(np.uint8)
    made = fresh(values, "uint8", Freshness.ANY, variety=variety)
    assert set(made) == {0, 1}
    assert (made != values).any() or variety is Variety.SIGNS


@pytest.mark.parametrize("element_type", TYPES)
def test_floats_keep_their_places_and_sizes_where_signs_change(element_type):
    values = np.linspace(1, 100, 5000).astype(TYPES[element_type])
    values[:100] = 0
    assert (fresh(values, element_type, Freshness.ANY, variety=Variety.SIGNS) == -values).all()
    some = fresh(values, element_type, Freshness.IN_DISTRIBUTION, variety=Variety.SIGNS)
    assert (np.abs(some) == values).all()
    assert 0.4 < (some < 0).mean() < 0.6
    zeros = np.zeros_like(values)
    assert not fresh(zeros, element_type, Freshness.ANY, variety=Variety.SIGNS).any()


def test_a_scalar_in_an_allocation_of_its_own_stays_where_it_is():
    values = np.zeros(1024, np.float32)
    values[0] = 2
    for seed in range(10):
        made = fresh(values, "fp32", Freshness.ANY, seed=seed)
        assert 1.7 < abs(made[0]) <= 2
        assert not made[1:].any()


@pytest.mark.parametrize("size", [1, 1024])
def test_an_integer_in_an_allocation_of_its_own_becomes_smaller(size):
    values = np.zeros(size, np.int32)
    values[0] = 300
    for seed in range(10):
        made = fresh(values, "int32", Freshness.IN_DISTRIBUTION, seed=seed)
        assert 150 <= made[0] < 300
        assert not made[1:].any()
        assert fresh(values, "int32", Freshness.ANY, seed=seed)[0] != 300
        assert (fresh(values, "int32", Freshness.NEAR, seed=seed) == values).all()


def test_short_integers_that_hold_brain_floats_change_as_floats():
    values = (np.linspace(1, 100, 5000).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    made = fresh(values, "uint16", Freshness.ANY)
    assert ((made & 0x7FFF) <= values.max()).all()
    assert 0.4 < (made >> 15).mean() < 0.6


@pytest.mark.parametrize("variety", [Variety.MIRRORED, Variety.ZEROS])
def test_integers_in_distribution_stay_captured_ones(variety):
    values = np.arange(1, 1001, dtype=np.int32)
    assert sorted(fresh(values, "int32", Freshness.IN_DISTRIBUTION, variety=variety)) == list(values)


@pytest.mark.parametrize("kind", ["int32", "uint64"])
def test_a_one_in_an_allocation_of_its_own_becomes_more_and_zero(kind):
    """It may be a flag, a count or bits."""
    values = np.zeros(4096 // np.dtype(kind).itemsize, kind)
    values[0] = 1
    for variety in (Variety.ALL, Variety.FEW, Variety.FEW_OTHERS):
        made = [fresh(values, kind, Freshness.ANY, seed=seed, variety=variety) for seed in range(64)]
        assert {int(each[0]) for each in made} == set(range(2, 6))
        assert not any(each[1:].any() for each in made)
    first = fresh(values, kind, Freshness.ANY)[0]
    assert first + fresh(values, kind, Freshness.ANY, variety=Variety.FEW_OTHERS)[0] == 0b111
    assert not fresh(values, kind, Freshness.ANY, variety=Variety.SIGNS).any()


def test_a_flag_in_an_allocation_of_its_own_is_the_other_in_one_state():
    values = np.zeros(4096, np.uint8)
    values[0] = 1
    assert not fresh(values, "uint8", Freshness.ANY, variety=Variety.SIGNS).any()


@pytest.mark.parametrize("kind", ["int32", "uint8", "int64"])
@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize("seed", range(10))
def test_some_of_a_few_equal_lengths_become_smaller(kind, count, seed):
    values = np.zeros(1024, kind)
    values[:count] = 9
    for freshness in (Freshness.ANY, Freshness.IN_DISTRIBUTION):
        made = fresh(values, kind, freshness, seed=seed)
        assert not made[count:].any()
        assert ((made[:count] >= 5) & (made[:count] <= 9)).all()
        assert (made[:count] < 9).any()
