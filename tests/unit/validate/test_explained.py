"""A failed verdict says by how much outputs differ, and which bounds would allow it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from made_up_replays import COUNT, Bench, double

from kerncap_stages.validate.compare.bounds import Bounds
from kerncap_stages.validate.compare.elements import compare_elements
from kerncap_stages.validate.compare.explained import WrongOutput, explain_wrong_outputs
from kerncap_stages.validate.compare.scaled_bounds import find_rounding


def wrong(actual, golden, element_type, **changes):
    """One output, whose rounding is relative to its largest element."""
    as_bytes = (np.ascontiguousarray(each).view(np.uint8).ravel() for each in (actual, golden))
    kind = "uint8" if element_type is None else element_type
    difference = compare_elements(*as_bytes, kind, Bounds())
    largest = float(np.abs(golden.astype(np.float64)).max())
    limit = (find_rounding(element_type).rtol or 0.0) * largest
    members = {"name": "out", "start_bytes": 0, "state": "", "is_fresh": False, **changes}
    return WrongOutput(element_type=element_type, difference=difference, largest_rounding=limit, **members)


def test_the_suggested_bound_allows_the_difference_and_one_that_is_smaller_does_not(store):
    def rounds(values):
        double(values)
        values[1:] *= np.float32(1 + 3e-6)

    bench = Bench(store, double, rounds, before=np.arange(1, COUNT + 1, dtype=np.float32))
    (why, *_) = bench.judge().reasons
    assert re.match(r"outputs differ .*: data \(float\*\) by up to \d.* \(relative [23]\.\d+e-06\)", why)
    assert "worst is element 63, " in why
    assert why.endswith("it may be rounding; `--rtol 1e-5` would allow it")
    assert bench.judge(bounds=Bounds(rtol=1e-5)).passed
    failed = bench.judge(bounds=Bounds(rtol=1e-6))
    assert failed.reasons[0].endswith("`--rtol 1e-5` would allow it")


def test_a_small_element_beside_large_ones_needs_an_absolute_bound(store):
    def rounds(values):
        double(values)
        values[0] = 1e-4

    before = np.arange(COUNT, dtype=np.float32)
    before[0] = 2.0**-20
    bench = Bench(store, double, rounds, before=before)
    (why, *_) = bench.judge().reasons
    assert why.endswith("it may be rounding; `--tolerance 1e-3` would allow it")
    assert "worst is element 0, " in why
    assert bench.judge(bounds=Bounds(atol=1e-3)).passed


def test_rounding_is_called_so_where_the_kernel_wrote_what_was_there_before(store):
    """A kernel that runs again on the same inputs changes nothing: what a variant changed tells sizes."""
    golden = np.linspace(1, 1000, COUNT, dtype=np.float32)

    def writes(values):
        values[:] = golden

    def rounds(values):
        values[:] = golden * np.float32(1 + 3e-6)

    def halves(values):
        values[:] = golden / 2

    bench = Bench(store, writes, rounds, before=golden.copy())
    (why, *_) = bench.judge(perturb=False).reasons
    assert why.endswith("it may be rounding; `--rtol 1e-5` would allow it")
    assert bench.judge(bounds=Bounds(rtol=1e-5), perturb=False).passed
    (why, *_) = Bench(store, writes, halves, before=golden.copy()).judge(perturb=False).reasons
    assert why.endswith("this is more than rounding, so no tolerance fits")


def test_what_is_no_rounding_is_called_so(store):
    def halves_one(values):
        double(values)
        values[7] /= 2

    (why, *_) = Bench(store, double, halves_one).judge().reasons
    assert "by up to 7 (relative 0.5); worst is element 7, 7.0 instead of 14.0" in why
    assert why.endswith("more than rounding, so no tolerance fits")


FLOATS = np.linspace(1, 2, 8, dtype=np.float32)


@pytest.mark.parametrize(
    ("actual", "golden", "kind", "said"),
    [
        (np.array([5, 2], np.int32), np.array([4, 2], np.int32), "int32", "integers do not round, so no tol"),
        (np.array([5, 2], np.uint8), np.array([4, 2], np.uint8), "uint8", "`--tolerance 1` would allow it"),
        (np.array([7, 2], np.uint8), np.array([4, 2], np.uint8), "uint8", "integers do not round, so no tol"),
        (np.array([7, 2], np.uint8), np.array([4, 2], np.uint8), None, "out in 1 of 2 bytes: their type is"),
        (FLOATS * np.float32(np.nan), FLOATS, "fp32", "no tolerance allows NaN or infinity in place"),
        (np.array([0x31], np.uint8), np.array([0x30], np.uint8), "fp8_e4m3", "`--ulp 1` would allow it"),
        (np.array([0x3A], np.uint8), np.array([0x30], np.uint8), "fp8_e4m3", "more than rounding"),
    ],
)
def test_other_types_and_numbers(actual, golden, kind, said):
    assert said in explain_wrong_outputs([wrong(actual, golden, kind)])


def test_integers_have_no_relative_error():
    made = wrong(np.array([5, 2], np.int32), np.array([4, 2], np.int32), "int32", state="fresh values")
    assert explain_wrong_outputs([made]).startswith(
        "out, from fresh values, by up to 1; worst is element 0, 5 instead of 4: "
    )


def test_one_output_that_is_more_than_rounding_counts_among_others():
    rounded = wrong(FLOATS * np.float32(1 + 1e-6), FLOATS, "fp32", name="rounded")
    other = wrong(FLOATS * np.float32(1.5), FLOATS, "fp32", name="other")
    assert explain_wrong_outputs([rounded]).endswith("`--rtol 1e-5` would allow it")
    said = explain_wrong_outputs([rounded, other])
    assert said.startswith("other by up to 1 ")
    assert "would allow" not in said
    strayed = explain_wrong_outputs([rounded], has_strays=True)
    assert strayed.endswith("it may be rounding, but no tolerance allows writes elsewhere")


def test_an_element_counts_from_where_its_argument_points():
    made = wrong(FLOATS * np.float32(1.5), FLOATS, "fp32", start_bytes=-64)
    assert "worst is element 23, " in explain_wrong_outputs([made])
