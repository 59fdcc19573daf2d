"""The interval of the ratio of times with and without a variant."""

from __future__ import annotations

import random

import pytest

from kerncap_stages.collect.paired_times import PairedTimes, find_interval


@pytest.mark.parametrize(
    ("number", "ends", "confidence"),
    [(1, (0, 0), 0.0), (2, (0, 1), 0.5), (5, (0, 4), 0.9375), (6, (0, 5), 0.96875), (20, (5, 14), 0.9586)],
)
def test_the_ends_are_those_of_tables_of_the_sign_test(number, ends, confidence):
    low, high, sure = find_interval(random.Random(1).sample(range(number), number))
    assert (low, high) == ends
    assert sure == pytest.approx(confidence, abs=1e-4)


def test_the_interval_holds_the_median_as_often_as_it_says():
    source = random.Random(2)
    found = [find_interval([source.lognormvariate(0, 1) for _ in range(9)]) for _ in range(4000)]
    share = sum(low <= 1 <= high for low, high, _ in found) / len(found)
    assert share == pytest.approx(found[0][2], abs=0.012)


def test_each_pair_has_a_ratio():
    times = PairedTimes(captured_ns=(100, 200, 400), variant_ns=(50, 150, 400))
    assert times.ratios == (0.5, 0.75, 1.0)
    assert times.ratio == 0.75
