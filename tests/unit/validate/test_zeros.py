"""Zeros are changed to numbers that no sum swallows."""

from __future__ import annotations

import numpy as np
import pytest

from kerncap_stages.validate.arguments import Span
from kerncap_stages.validate.perturb.patterns import replace_zeros

TYPES = {"fp64": np.float64, "fp32": np.float32, "fp16": np.float16}


def lift(values, start=0, part=None, golden=None):
    content = values.view(np.uint8).copy()
    golden = content if golden is None else golden.view(np.uint8)
    with replace_zeros(content, start, part, lambda low, high: golden[low - start : high - start]):
        content ^= 1
    return content


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("largest", [3.0, 300.0, 1e-3])
def test_zeros_of_both_signs_become_as_large_as_the_golden_values(kind, largest):
    number = TYPES[kind]
    before = np.array([0, -0.0, 1.5, 0], number)
    golden = np.array([largest, -largest / 2, np.nan, np.inf], number)
    made = lift(before, part=Span(0, before.nbytes, kind), golden=golden)
    values = made.view(number)
    assert (values[[0, 1, 3]] > largest / 2 * 0.9).all()
    assert (values[[0, 1, 3]] < largest * 4).all()
    assert (made != before.view(np.uint8)).all()
    assert values[2] == (before.view(np.uint8) ^ 1).view(number)[2]


def test_bf16_is_the_upper_half_of_an_fp32():
    before = np.zeros(4, np.uint16)
    golden = (np.array([1, 5, 2, 0], np.float32).view(np.uint32) >> 16).astype(np.uint16)
    made = lift(before, part=Span(0, 8, "bf16"), golden=golden).view(np.uint16)
    assert ((made.astype(np.uint32) << 16).view(np.float32) >= 4).all()


@pytest.mark.parametrize("golden", [np.zeros(2, np.float32), np.full(2, np.nan, np.float32)])
def test_without_a_golden_number_they_become_about_one(golden):
    values = lift(np.zeros(2, np.float32), part=Span(0, 8, "fp32"), golden=golden).view(np.float32)
    assert ((values >= 1) & (values < 4)).all()


@pytest.mark.parametrize("kind", ["int32", "uint8", "fp8_e4m3"])
def test_of_other_elements_no_more_is_changed(kind):
    assert (lift(np.zeros(4, np.float32), part=Span(0, 16, kind)) == 1).all()


def test_zeros_of_unknown_elements_are_true_as_flags_and_large_as_numbers():
    made = lift(np.array([0, 5], np.uint32), part=Span(0, 8, None))
    assert (made[:4] & 1).all()
    assert made[:4].view(np.float32)[0] > 250
    assert made[:4].view(np.int32)[0] > 0
    assert made[4:].view(np.uint32)[0] == 5 ^ 0x01010101


def test_an_element_that_is_there_in_part_is_left_alone():
    """Three bytes of one, a whole one, two bytes of another."""
    content = np.zeros(9, np.uint8)
    made = lift(content, start=101, part=Span(100, 200, "fp32"), golden=np.zeros(9, np.uint8))
    assert (made[:3] == 1).all()
    assert (made[7:] == 1).all()
    assert made[3:7].view(np.float32)[0] >= 1
