"""Where memory of unknown type differs, if it differs as floats do."""

from __future__ import annotations

import numpy as np
import pytest

from kerncap_stages.validate.arguments import Span
from kerncap_stages.validate.perturb.own_ranges import cut_at_range, find_float_range

SIZE = 64 << 10
FLOATS = slice(8 << 10, 24 << 10)  # of the bytes; the rest holds small integers


@pytest.fixture
def pool():
    """Memory before and after a kernel wrote floats among integers: uint8[SIZE] each."""
    after = (np.arange(SIZE // 4, dtype=np.uint32) % 7).view(np.uint8)
    before = after.copy()
    after[FLOATS] = np.random.default_rng(4).normal(size=(16 << 10) // 4).astype(np.float32).view(np.uint8)
    return before, after


def changed(content, byte, dtype, value):
    other = content.copy()
    other[byte : byte + np.dtype(dtype).itemsize].view(dtype)[0] += value
    return other


def test_one_sum_that_differs_tells_the_type_and_all_of_the_array(pool):
    before, after = pool
    found = find_float_range(
        Span(0, SIZE, None, "out"), before, after, changed(after, 12 << 10, np.float32, 1e-6)
    )
    assert found == Span(FLOATS.start, FLOATS.stop, "fp32", "out")


def test_what_lies_behind_the_start_of_a_part_counts_from_there(pool):
    before, after = pool
    found = find_float_range(
        Span(4096, 4096 + SIZE, None), before, after, changed(after, 12 << 10, np.float32, 1e-6)
    )
    assert found == Span(4096 + FLOATS.start, 4096 + FLOATS.stop, "fp32")


@pytest.mark.parametrize("byte", [0, 40 << 10, SIZE - 4])
def test_integers_that_differ_are_no_floats(pool, byte):
    before, after = pool
    assert find_float_range(Span(0, SIZE, None), before, after, changed(after, byte, np.uint32, 1)) is None


def test_an_integer_that_differs_beside_floats_leaves_no_range(pool):
    before, after = pool
    both = changed(changed(after, 12 << 10, np.float32, 1e-6), 40 << 10, np.uint32, 1)
    assert find_float_range(Span(0, SIZE, None), before, after, both) is None


def test_nothing_differs(pool):
    before, after = pool
    assert find_float_range(Span(0, SIZE, None), before, after, after.copy()) is None


def test_what_lies_around_a_range_has_no_type():
    whole, inner = Span(0, 100, None, "x"), Span(20, 40, "fp32", "x")
    assert [*cut_at_range(whole, inner)] == [Span(0, 20, None, "x"), inner, Span(40, 100, None, "x")]
    assert [*cut_at_range(whole, Span(0, 100, "fp32", "x"))] == [Span(0, 100, "fp32", "x")]
    assert [*cut_at_range(whole, None)] == [whole]
