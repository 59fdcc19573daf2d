"""`make sweep`: how the output of other projects' tests is read."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools/sweep.py"
SPEC = importlib.util.spec_from_file_location("sweep", TOOL)
assert SPEC is not None
assert SPEC.loader is not None
sweep = importlib.util.module_from_spec(SPEC)
sys.modules["sweep"] = sweep  # dataclasses look their module up
SPEC.loader.exec_module(sweep)

LISTED = """Running main() from gtest_main.cc
HipcubThing.
  Sorts
BlockScan/0.  # TypeParam = params<int, 256>
  Exclusive
Draws/checkin_lapack.
  solve/3  # GetParam() = { 10, 20 }
"""


def test_a_list_of_googletest_is_read():
    assert list(sweep.parse_gtest_list(LISTED)) == [
        "HipcubThing.Sorts",
        "BlockScan/0.Exclusive",
        "Draws/checkin_lapack.solve/3",
    ]


@pytest.mark.parametrize(
    ("code", "told", "refused", "state", "why"),
    [
        (0, "[==========] 1 test\n[  PASSED  ] 1 test.", "", "passed", ""),
        (0, "  Device: gfx90a\n  3/3 tests passed\n  Backend ROCm0: OK", "", "passed", ""),
        (0, "[  SKIPPED ] A.b\n[  PASSED  ] 0 tests.", "", "skipped", "[  SKIPPED ] A.b"),
        (0, "", "", "passed", ""),
        (1, "x\n[  FAILED  ] A.b (3 ms)", "", "failed", "exit code 1: [  FAILED  ] A.b (3 ms)"),
        (-6, "", "", "failed", "signal 6"),
        (-6, "kerncap software GPU: no image_load", "", "refused", "kerncap software GPU: no image_load"),
        (0, "[  PASSED  ] 1 test.", "sort did not run\nx", "refused", "sort did not run"),
    ],
)
def test_what_became_of_a_test(code, told, refused, state, why):
    assert sweep.judge(code, told, refused) == (state, why)
