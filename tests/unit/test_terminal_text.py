"""What a terminal would obey never reaches it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap_stages.text.terminal import make_printable


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b2J", "\\x9b2J"),
        ("a\rb\nc\td\x07", "a\\rb\\nc\\td\\x07"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("a\u2028b", "a\\u2028b"),
        ("caf\udce9", "caf\\xe9"),
        ("\U000e0041", "\\U000e0041"),
        ("naïve 核 ∑ é\u00a0x", "naïve 核 ∑ é\u00a0x"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
    ],
)
def test_printable(hostile, shown):
    assert make_printable(hostile) == shown


@given(st.text(alphabet=st.characters(), max_size=50))
def test_printable_leaves_nothing_to_obey(text):
    shown = make_printable(text)
    assert not {unicodedata.category(letter) for letter in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert make_printable(shown) == shown


def test_lines_can_be_kept():
    assert make_printable("a\nb\x1b", keep_lines=True) == "a\nb\\x1b"
