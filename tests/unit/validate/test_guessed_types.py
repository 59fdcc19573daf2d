"""Words of unknown type that look like floats are compared as such, but integers among them are not."""

from __future__ import annotations

import numpy as np
import pytest

from kerncap_stages.validate.perturb.guessed_types import differ_as_floats, guess_float

RNG = np.random.default_rng(5)


def as_bytes(values, dtype="<f4"):
    return np.asarray(values, dtype).view(np.uint8)


def test_rows_of_floats_with_an_index_look_like_floats():
    rows = RNG.normal(size=(64, 16)).astype("<f4")
    rows[:, 15].view("<u4")[:] = np.arange(64)
    assert guess_float(rows.reshape(-1).view(np.uint8)) == "fp32"


@pytest.mark.parametrize(("kind", "dtype"), [("fp64", "<f8"), ("fp32", "<f4"), ("fp16", "<f2")])
def test_floats_that_round_otherwise_differ_as_floats(kind, dtype):
    values = RNG.normal(size=256)
    values[7] = 0
    other = values.copy()
    other[3], other[7] = other[3] * 1.01, 1e-3
    assert differ_as_floats(kind, as_bytes(values, dtype), as_bytes(other, dtype))


def test_an_index_that_differs_does_not():
    one = RNG.normal(size=256).astype("<f4")
    one.view("<u4")[15] = 7
    other = one.copy()
    assert differ_as_floats("fp32", one.view(np.uint8), other.view(np.uint8))
    for index in (0, 8):
        other.view("<u4")[15] = index
        assert not differ_as_floats("fp32", one.view(np.uint8), other.view(np.uint8))


def mix(plausible, others, size=200_000):
    """Make words, of which so many have exponents in the middle, and the others have not; none is zero."""
    words = np.full(size, others, np.uint32)
    words[: round(plausible * size)] = 0x3F80_0001
    return RNG.permutation(words).view(np.uint8)


@pytest.mark.parametrize("others", [0x0000_0001, 0x7F80_0001, 0x8000_0001, (87 << 23) - 1, 168 << 23])
def test_nine_tenths_of_the_numbers_decide_in_memory_of_any_size(others):
    assert guess_float(mix(0.9, others)) == "fp32"
    assert guess_float(mix(0.899, others)) is None


@pytest.mark.parametrize("exponent", [87, 167])
def test_the_outermost_usual_exponents_count(exponent):
    assert guess_float(mix(0.0, exponent << 23 | 1)) == "fp32"
