"""How the errors of two kernels are compared against true values."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kerncap_stages.validate.compare.elements import find_dtype
from kerncap_stages.validate.precision.errors import measure_errors

COUNT = 4096
SEEDS = range(40)


def draw(seed, count=COUNT, *, scale=1.0):
    return np.random.default_rng(seed).normal(size=count) * scale


def rounded(true, seed, ulps):
    """What a kernel gives whose errors are normal, with this root mean square in ULP of 1."""
    return (true + draw(seed, true.size) * ulps * 2.0**-23).astype(np.float32)


def judge(true, captured_ulps, variant_ulps, seed=1):
    return measure_errors(
        true, rounded(true, seed + 1000, captured_ulps), rounded(true, seed + 2000, variant_ulps), "fp32"
    )


@pytest.mark.parametrize("count", [1, 2, 4, 16, 64, COUNT])
def test_an_equally_exact_variant_passes_from_any_seed(count):
    failed = [seed for seed in SEEDS if not judge(draw(seed, count), 20, 20, seed).passed]
    assert failed == []


def test_an_equally_exact_variant_passes_where_single_errors_are_much_larger():
    """As those of rows whose terms cancel: a single error says little about its kernel."""
    for seed in SEEDS:
        true = draw(seed)
        spread = np.where(np.arange(COUNT) % 500 == 0, 1e4, 1.0) * 2.0**-22
        captured, variant = ((true + draw(seed + each) * spread).astype(np.float32) for each in (100, 200))
        assert measure_errors(true, captured, variant, "fp32").passed, seed
        less_exact = true.astype(np.float16).astype(np.float32)
        errors = measure_errors(true, captured, less_exact, "fp32")
        assert not errors.passed
        by_median = [group.comparisons[-1] for group in errors.groups if group.factor >= 64]
        assert by_median
        assert all(each.name == "median" and each.share > 1 for each in by_median)


@pytest.mark.parametrize(("count", "times"), [(COUNT, 3), (128, 4), (64, 6), (16, 40), (1, 100000)])
def test_a_less_exact_variant_fails(count, times):
    passed = [seed for seed in SEEDS if judge(draw(seed, count) + 2, 20, 20 * times, seed).passed]
    assert len(passed) <= len(SEEDS) // 20, passed


def test_a_more_exact_variant_passes():
    errors = judge(draw(3), 20, 0)
    assert errors.passed
    assert errors.variant.rms < errors.captured.rms / 10


def test_an_error_in_one_element_is_found():
    true = draw(4)
    captured = rounded(true, 5, 4)
    variant = captured.copy()
    variant[77] += 2.0**-23 * 100
    errors = measure_errors(true, captured, variant, "fp32")
    assert not errors.passed
    assert errors.worst == 77
    assert errors.decisive.worst.name == "largest"


def test_large_elements_do_not_hide_small_ones():
    large, small = draw(6) * 2.0**20, draw(7)
    true = np.concatenate([large, small])
    captured = true.astype(np.float32)
    variant = captured.copy()
    variant[COUNT:] = small.astype(np.float16)
    errors = measure_errors(true, captured, variant, "fp32")
    assert not errors.passed
    assert errors.variant.max_absolute < 2 * errors.captured.max_absolute


def test_an_error_of_one_ulp_is_allowed_where_the_captured_kernel_has_none():
    true = np.arange(1.0, 1.0 + COUNT)
    captured = true.astype(np.float32)
    up = np.nextafter(captured, np.float32(np.inf))
    assert measure_errors(true, captured, up, "fp32").passed
    assert not measure_errors(true, captured, captured * np.float32(1 + 2.0**-20), "fp32").passed


@pytest.mark.parametrize("element_type", ["fp64", "fp32", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2"])
def test_each_type_has_its_own_ulp(element_type):
    true = np.linspace(1.0, 1.9, 500)
    exact = true.astype(find_dtype(element_type))
    assert measure_errors(true, exact, exact, element_type).passed
    # Each has 2 mantissa bits, or more.
    coarse = (np.round(true * 2) / 2).astype(find_dtype(element_type))
    errors = measure_errors(true, exact, coarse, element_type)
    assert errors.passed is (element_type == "fp8_e5m2")
    assert errors.decisive.ulp == float(ml_dtypes.finfo(find_dtype(element_type)).eps)


def test_subnormal_numbers_may_be_flushed():
    true = draw(8, scale=1e-39)
    kept = true.astype(np.float32)
    assert measure_errors(true, kept, np.zeros(COUNT, np.float32), "fp32").passed


def test_elements_without_a_finite_number_do_not_count():
    true, captured = draw(9), draw(9).astype(np.float32)
    captured[5], captured[6] = np.inf, np.nan
    errors = measure_errors(true, captured, captured, "fp32")
    assert (errors.elements, errors.unusable, errors.invalid) == (COUNT - 2, 2, None)
    variant = captured.copy()
    variant[7] = np.nan
    assert not measure_errors(true, captured, variant, "fp32").passed
    assert measure_errors(true, np.full(COUNT, np.nan, np.float32), captured, "fp32") is None


def test_a_reference_without_a_number_where_the_kernel_has_one_is_told():
    true = draw(10)
    true[3] = np.nan
    errors = measure_errors(true, draw(10).astype(np.float32), draw(10).astype(np.float32), "fp32")
    assert errors.invalid == 3
