"""Expressions over parameters: what they are worth, and what they may not do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap_stages.errors import UsageError
from kerncap_stages.tune.expressions import read_expression

VALUES = {"a": 6, "b": 4, "f": 0.5, "text": "O2", "on": True}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a * b + 1", 25),
        ("a // b", 1),
        ("a / b", 1.5),
        ("-a % b", 2),
        ("ceil_div(a, b)", 2),
        ("ceil_div(8, b)", 2),
        ("max(a, b, 9)", 9),
        ("min(a, b) if a > b else 0", 4),
        ("1 << b", 16),
        ("a & (a - 1) == 0", 0),
        ("(a & (a - 1)) == 0", False),
        ("a in (2, 6)", True),
        ("a not in [2, 6]", False),
        ("b < a <= 6", True),
        ("b < a <= 5", False),
        ("not on or text == 'O2'", True),
        ("text in ['O3', 'O2'] and f < 1", True),
        ("  a ", 6),
    ],
)
def test_values(text, value):
    assert read_expression(text, VALUES).evaluate(VALUES) == value


@given(st.integers(-1000, 1000), st.integers(1, 1000), st.integers(-5, 5))
def test_they_are_pythons(a, b, c):
    values = {"a": a, "b": b, "c": c}
    for text in ("a * b - c", "a // b + c", "a % b", "-(a ^ b) | c", "a if b > c else c", "a < b < c"):
        assert read_expression(text, values).evaluate(values) == eval(text, {}, values)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "a.__class__",
        "[each for each in (1, 2)]",
        "lambda: 1",
        "a ** b",
        "open('x')",
        "print",
        "f'{a}'",
        "b''",
        "a[0]",
        "{1: 2}",
        "(c := 3)",
        "min(*[1, 2])",
        "min(a, b, key=abs)",
        "max(a, b)(a)",
        "a = 1",
        "a; b",
        "",
        "None",
        "1j",
        "...",
        "unknown + 1",
        "max()",
        "min(a)",
        "ceil_div(a)",
        "1e400",
        "(" * 400 + "1" + ")" * 400,
        "a" + " + a" * 1000,
        "\0",
    ],
)
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(UsageError):
        read_expression(text, VALUES)


@pytest.mark.parametrize(
    "text", ["a // 0", "a % (b - 4)", "text * 1000000", "text + text", "(1, 2) * a", "1 << 100", "text < a",
             "1.0 << 2", "-text", "1 // 0"]
)  # fmt: skip
def test_what_has_no_value_is_an_error(text):
    with pytest.raises(UsageError, match="has no value"):
        read_expression(text, VALUES).evaluate(VALUES)
