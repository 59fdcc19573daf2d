"""Configurations of Triton kernels, as users write them."""

from __future__ import annotations

import pytest

from kerncap_stages.errors import UsageError
from kerncap_stages.text.configurations import format_configuration, has_values, parse_configuration

VALUES = {"SIZE": "32", "NAMES": "('a', 'b=c')", "x[0]": "float('-inf')", "KIND": "'row'", "num_warps": "4"}


@pytest.mark.parametrize(
    "values",
    [
        VALUES,
        {"KIND": "'a, b=c'", "N": "1"},
        {"KIND": '"it\'s, b=c"'},
        {"A": "('x', (1, 'y, z=2'))", "B": "it's"},
    ],
)
def test_what_is_written_is_read_again(values):
    assert parse_configuration(format_configuration(values)) == values


@pytest.mark.parametrize(("wanted", "fits"), [("True", True), ("1", False), ("1.0", False)])
def test_a_number_is_no_truth_value(wanted, fits):
    assert has_values({"FLAG": "True"}, {"FLAG": wanted}) == fits
    assert has_values({"FLAG": "1"}, {"FLAG": wanted}) == (not fits)


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ("SIZE=32", True),
        ("num_warps = 4,SIZE=32", True),
        ("SIZE=32.0", True),
        ("KIND=row", True),
        ("NAMES=('a','b=c')", True),
        ("x[0]=float('-inf')", True),
        ("SIZE=64", False),
        ("SIZE=3", False),
        ("num_stages=2", False),
        ("SIZE=32, num_warps=8", False),
    ],
)
def test_a_configuration_has_all_the_values(wanted, fits):
    assert has_values(VALUES, parse_configuration(wanted)) == fits


@pytest.mark.parametrize(
    "text", ["", "32", "SIZE", "SIZE=", "SIZE=1, SIZE=2", "a==1", "(SIZE=1)", "8, SIZE=1"]
)
def test_other_texts_are_refused(text):
    with pytest.raises(UsageError, match="values by name"):
        parse_configuration(text)
