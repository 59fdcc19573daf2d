import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kerncap_stages.errors import UsageError
from kerncap_stages.validate.compare.bounds import make_bounds
from kerncap_stages.validate.compare.elements import (
    ELEMENT_TYPES,
    FLOAT_TYPES,
    Bounds,
    compare_bytes,
    compare_elements,
    find_dtype,
)

EXACT = Bounds()


def as_bytes(values, dtype="fp32"):
    return np.asarray(values, dtype=find_dtype(dtype)).view(np.uint8)


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_equal_buffers_pass_for_every_type(dtype):
    data = np.arange(64, dtype=np.uint8)
    result = compare_elements(data, data.copy(), dtype, EXACT)
    assert result.passed
    assert (result.elements, result.differing) == (64 // find_dtype(dtype).itemsize, 0)


@pytest.mark.parametrize("dtype", FLOAT_TYPES)
def test_one_ulp_fails_exactly_and_passes_with_ulp_1(dtype):
    golden = as_bytes([1.0, 2.0, -1.5, 0.5], dtype)
    actual = golden.copy()
    actual[2 * find_dtype(dtype).itemsize] += 1  # the lowest byte: one representable value further
    assert compare_elements(actual, golden, dtype, EXACT).failing == 1
    off_by_one = compare_elements(actual, golden, dtype, Bounds(ulp=1))
    assert off_by_one.passed
    assert off_by_one.max_ulp == 1
    assert off_by_one.worst.offset_bytes == 2 * find_dtype(dtype).itemsize


def test_ulp_distance_crosses_zero():
    tiny = np.float32(np.finfo(np.float32).smallest_subnormal)
    result = compare_elements(as_bytes([tiny]), as_bytes([-tiny]), "fp32", Bounds(ulp=2))
    assert result.passed
    assert result.max_ulp == 2


def test_ulp_distance_of_the_ends_of_f64_does_not_overflow():
    largest = np.finfo(np.float64).max
    result = compare_elements(
        as_bytes([largest], "fp64"), as_bytes([-largest], "fp64"), "fp64", Bounds(ulp=5)
    )
    assert not result.passed


@pytest.mark.parametrize(
    ("actual", "golden", "passed"),
    [
        ([np.nan], [np.nan], True),
        ([-np.nan], [np.nan], True),
        ([np.nan], [1.0], False),
        ([1.0], [np.nan], False),
        ([np.inf], [np.inf], True),
        ([np.inf], [-np.inf], False),
        ([np.inf], [3.0e38], False),
        ([-0.0], [0.0], True),
    ],
)
def test_special_values_under_generous_bounds(actual, golden, passed):
    bounds = Bounds(atol=1e3, rtol=1e3, ulp=1)
    assert compare_elements(as_bytes(actual), as_bytes(golden), "fp32", bounds).passed is passed


def test_counts_nans_and_infinities_on_each_side():
    result = compare_elements(as_bytes([np.nan, np.inf, 1]), as_bytes([0, np.nan, np.nan]), "fp32", EXACT)
    assert (result.nan_actual, result.nan_golden, result.infinite_actual, result.infinite_golden) == (
        1,
        2,
        1,
        0,
    )
    assert result.failing == 3


def test_tolerances_add_up_as_documented():
    golden, actual = as_bytes([100.0]), as_bytes([101.5])
    assert not compare_elements(actual, golden, "fp32", Bounds(atol=0.5, rtol=0.009)).passed
    assert compare_elements(actual, golden, "fp32", Bounds(atol=0.5, rtol=0.0101)).passed


def test_integer_distance_does_not_wrap():
    golden, actual = as_bytes([-(2**63)], "int64"), as_bytes([2**63 - 1], "int64")
    assert not compare_elements(actual, golden, "int64", Bounds(atol=10)).passed
    assert (
        compare_elements(as_bytes([250], "uint8"), as_bytes([3], "uint8"), "uint8", Bounds(atol=10)).failing
        == 1
    )


def test_trailing_bytes_must_be_equal():
    golden = np.zeros(6, np.uint8)
    actual = golden.copy()
    actual[5] = 1
    assert compare_elements(actual, golden, "fp32", Bounds(atol=1)).failing == 1


def test_the_worst_element_is_a_failing_one_when_there_is_one():
    golden, actual = as_bytes([0.0, 1000.0]), as_bytes([0.5, 1000.9])
    result = compare_elements(actual, golden, "fp32", Bounds(rtol=1e-2))
    assert result.failing == 1
    assert (result.worst.offset_bytes, result.worst.actual, result.worst.golden) == (0, 0.5, 0.0)


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
@pytest.mark.parametrize("bounds", [EXACT, Bounds(atol=0.25)])
def test_of_failing_elements_the_worst_is_the_one_farthest_off(dtype, bounds):
    golden, actual = as_bytes([1, 1, 1, 1], dtype), as_bytes([1, 2, 4, 3], dtype)
    worst = compare_elements(actual, golden, dtype, bounds).worst
    assert (worst.offset_bytes, worst.actual, worst.golden) == (2 * find_dtype(dtype).itemsize, 4, 1)


@pytest.mark.parametrize("none", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_worse_than_any_number(none):
    golden, actual = as_bytes([1.0, 1.0, 1.0]), as_bytes([3.0e38, none, -3.0e38])
    assert compare_elements(actual, golden, "fp32", EXACT).worst.offset_bytes == 4
    assert compare_elements(golden, actual, "fp32", EXACT).worst.offset_bytes == 4


@pytest.mark.parametrize(
    ("bounds", "worst"),
    [
        (EXACT, 1),  # 2.0 off
        (Bounds(atol=1e-6), 1),  # 2,000,000 times what is allowed
        (Bounds(rtol=1e-3), 2),  # 5,000 times, against 2,000 and 667
        (Bounds(ulp=4), 0),  # other sign: two thousand million values lie between
    ],
)
def test_the_worst_element_is_farthest_off_as_the_bounds_measure(bounds, worst):
    golden, actual = as_bytes([1e-4, 3.0, 1e-3]), as_bytes([-1e-4, 1.0, 6e-3])
    assert compare_elements(actual, golden, "fp32", bounds).worst.offset_bytes == 4 * worst


def test_two_nans_of_other_bits_are_better_than_two_numbers():
    golden = as_bytes([np.nan, 1.0])
    actual = as_bytes([np.nan, 1.5])
    actual[0] ^= 1
    assert compare_elements(actual, golden, "fp32", EXACT).worst.offset_bytes == 4


def test_the_worst_integer_is_one_that_fails_and_is_told_exactly():
    golden, actual = as_bytes([2**62, 0], "int64"), as_bytes([2**62 + 1001, 3], "int64")
    worst = compare_elements(actual, golden, "int64", Bounds(rtol=0.5)).worst
    assert (worst.offset_bytes, worst.actual) == (8, 3)
    worst = compare_elements(actual, golden, "int64", EXACT).worst
    assert (worst.actual, worst.golden) == (2**62 + 1001, 2**62)


def test_the_worst_element_may_lie_in_any_batch():
    golden = as_bytes([1.0] * 6)
    actual = as_bytes([1.5, 1.0, 1.0, 2.5, np.nan, 1.0])
    assert compare_elements(actual, golden, "fp32", EXACT, batch_elements=2).worst.offset_bytes == 16
    actual[16:20] = golden[16:20]
    assert compare_elements(actual, golden, "fp32", EXACT, batch_elements=2).worst.offset_bytes == 12


def test_buffers_of_different_size_are_refused():
    with pytest.raises(ValueError, match="differ in size"):
        compare_elements(np.zeros(4, np.uint8), np.zeros(8, np.uint8), "fp32", EXACT)


@given(arrays(np.uint8, 32), arrays(np.uint8, 32), st.sampled_from(ELEMENT_TYPES))
def test_differing_elements_are_those_with_a_differing_byte(actual, golden, dtype):
    size = find_dtype(dtype).itemsize
    expected = {int(offset) // size for offset in compare_bytes(actual, golden)}
    assert compare_elements(actual, golden, dtype, EXACT).differing == len(expected)


def test_without_bounds_nans_of_another_payload_differ():
    golden = as_bytes([np.nan])
    actual = golden.copy()
    actual[0] ^= 1
    assert compare_elements(actual, golden, "fp32", EXACT).failing == 1
    assert compare_elements(actual, golden, "fp32", Bounds(ulp=0)).passed


@pytest.mark.parametrize("bounds", [Bounds(atol=1.0), Bounds(rtol=0.5), Bounds(atol=1.0, rtol=0.5)])
def test_infinities_agree_with_their_like_alone(bounds):
    golden = as_bytes([np.inf, -np.inf, np.inf, 1.0])
    assert compare_elements(golden, golden.copy(), "fp32", bounds).passed
    actual = as_bytes([np.inf, np.inf, 1.0, np.inf])
    assert compare_elements(actual, golden, "fp32", bounds).failing == 3


@pytest.mark.parametrize(
    "bad", [(np.nan, None, None), (None, np.inf, None), (-1.0, None, None), (None, None, 2**63)]
)
def test_bounds_are_finite_numbers(bad):
    with pytest.raises(UsageError):
        make_bounds(*bad)


def test_bounds_may_be_left_out():
    assert make_bounds(None, None, None).is_exact
    assert make_bounds(0.0, 1e-5, 2**62) == Bounds(0.0, 1e-5, 2**62)
