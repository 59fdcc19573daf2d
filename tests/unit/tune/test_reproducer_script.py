"""Values in the text of reproducer.py."""

from __future__ import annotations

import pytest

from kerncap_stages.errors import UsageError
from kerncap_stages.tune.reproducer_script import ReproducerScript

TEXT = '''"""Compiles, with a wide character: ü."""
GRID = (4, 1, 1)  # grün
CONSTANTS = {
    'BLOCK': 64,  # mine: é
    'NAME': 'a',
    'WIDE': 2 * 8, 'TWO': 2,
}
OPTIONS = {
    'num_warps': 4,
    'BLOCK': 1,
}
if __name__ == "__main__":
    print(CONSTANTS)
'''


def test_values_change_and_all_else_stays():
    script = ReproducerScript(TEXT)
    assert script.list_values() == {"BLOCK": 64, "NAME": "a", "TWO": 2, "num_warps": 4}
    script.require(["BLOCK", "num_warps"], grid=True)
    text = script.replace({"BLOCK": 128, "num_warps": 8, "NAME": "it's", "TWO": False}, [2, 1, 1])
    expected = (
        TEXT.replace("'BLOCK': 64", "'BLOCK': 128").replace("'num_warps': 4", "'num_warps': 8")
        .replace("'NAME': 'a'", "'NAME': \"it's\"").replace("'TWO': 2", "'TWO': False")
        .replace("(4, 1, 1)", "(2, 1, 1)")
    )  # fmt: skip
    assert text == expected
    assert ReproducerScript(text).replace(script.list_values(), [4, 1, 1]) == TEXT
    assert script.replace({}, None) == TEXT


@pytest.mark.parametrize("name", ["WIDE", "missing"])
def test_what_is_no_plain_value_is_refused(name):
    with pytest.raises(UsageError, match="neither a constant nor an option"):
        ReproducerScript(TEXT).require([name], grid=False)


def test_what_is_no_script_is_refused():
    with pytest.raises(UsageError, match="parsed as Python"):
        ReproducerScript("CONSTANTS = {")
    with pytest.raises(UsageError, match="sets no GRID"):
        ReproducerScript("CONSTANTS = {}").require([], grid=True)
