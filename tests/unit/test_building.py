"""How far a build is, on a terminal and in a log."""

from __future__ import annotations

import importlib.util
import io
import sys
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location(
    "building", Path(__file__).resolve().parents[2] / "tools/building.py"
)
building = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(building)

STEPS = "print('set up'); print('  [1/2] Compiling one'); print('[2/2] Linking it'); print('[1/9] one.py')"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_the_count_on_one_line_that_goes():
    shown, said = Terminal(), []
    assert building.build([sys.executable, "-c", STEPS], said.append, shown) == 0
    assert shown.getvalue() == "\r\x1b[K[1/2] built\r\x1b[K[2/2] built\r\x1b[K"
    assert said == []


@pytest.mark.parametrize(("pause_s", "lines"), [(0.0, ["1/2 built", "2/2 built"]), (60.0, [])])
def test_a_log_has_a_line_now_and_then(pause_s, lines):
    shown, said = io.StringIO(), []
    assert building.build([sys.executable, "-c", STEPS], said.append, shown, pause_s) == 0
    assert (shown.getvalue(), said) == ("", lines)


def test_what_a_build_that_fails_printed_is_shown_without_its_steps():
    shown = io.StringIO()
    program = f"import sys; {STEPS}; sys.stdout.flush(); print('error', file=sys.stderr); sys.exit(3)"
    assert building.build([sys.executable, "-c", program], print, shown) == 3
    assert shown.getvalue() == "set up\n[1/9] one.py\nerror\n"
