"""kc-run with the demo's program, which launches its kernel with the same inputs each time."""

from __future__ import annotations

import json
import re
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from made_up import device_code
from programs import SOURCES

if TYPE_CHECKING:
    from pathlib import Path

LOOP = """  for (int column = 0; column < shape.columns; ++column)
    result[row] += matrix[row * shape.columns + column] * vector[column];"""
KEPT = """  static __device__ float kept[256];
  static __device__ bool is_known[256];
  float sum = 0;
  for (int column = 0; column < shape.columns; ++column)
    sum += matrix[row * shape.columns + column] * vector[column];
  if (!is_known[row]) kept[row] = sum;
  is_known[row] = true;
  result[row] += ADDED;"""
RIGHT = KEPT.replace("ADDED", "sum")
STALE = KEPT.replace("ADDED", "kept[row]")  # right in this program


@pytest.fixture
def app(stages, tmp_path) -> Path:
    """The program, captured once."""
    built = tmp_path / "demo"
    sources = [SOURCES / "demo/src/main.cpp", SOURCES / "demo/src/matvec.hip"]
    words = ["hipcc", "-O3", "--offload-arch=gfx90a", f"-I{SOURCES}/demo/include", *sources, "-o", built]
    subprocess.run(words, check=True, capture_output=True)
    stages.capture("add_rows", built)
    return built


@pytest.fixture
def variant(tmp_path):
    """Compile the program's kernels with another text in the place of the loop."""

    def compile_with(loop: str) -> Path:
        text = (SOURCES / "demo/src/matvec.hip").read_text()
        assert LOOP in text
        edited = tmp_path / "matvec.hip"
        edited.write_text(text.replace(LOOP, loop))
        code = tmp_path / "variant.hsaco"
        device_code(edited, code, f"-I{SOURCES}/demo/include")
        return code

    return compile_with


def test_check_finds_a_variant_that_keeps_the_result_of_its_first_launch(stages, app, variant, tmp_path):
    """From each captured state alone it is right: there it runs for the first time."""
    page = tmp_path / "page.json"
    words = ("--rtol", 1e-4, "--check", 2, "--json", page, "--", app)
    right = stages.run("run", "--variant", variant(RIGHT), *words).must()
    assert right.out.startswith("256 x 192, 3 steps")
    first, tried, second = right.err.splitlines()[1:4]
    assert "dispatch 0 (grid 4 x 1 x 1, block 64 x 1 x 1): Result: PASS" in first
    assert re.search(r"  Tried: captured state, .* fresh \(seed \d+\), \d+ runs", tried)
    assert "dispatch 1 (grid 4 x 1 x 1, block 64 x 1 x 1): Result: PASS" in second
    assert [each["whole_verdict"] for each in json.loads(page.read_text())["check"]] == [True, False]
    stale = stages.run("run", "--variant", variant(STALE), *words).must(1)
    assert stale.out == ""
    assert "the program was not run: the variant was wrong in 1 of 2 compared dispatches" in stale.err
    assert "dispatch 0 (grid 4 x 1 x 1, block 64 x 1 x 1): Result: FAIL" in stale.err
    assert [each["passed"] for each in json.loads(page.read_text())["check"]] == [False, True]
    again = re.search(r"`kc-(validate) (.*)` repeats this verdict", stale.err)
    assert again is not None
    stages.run("validate", *again[2].split()).must(1)


def test_the_timeout_ends_a_checked_replay_that_hangs(stages, app, variant):
    began = time.monotonic()
    hangs = variant("  for (volatile int i = 0; i < 1;) result[row] += 0 * i;")
    done = stages.run("run", "--variant", hangs, "--check", 1, "--timeout", 2, "--", app).must(1)
    assert time.monotonic() - began < 60
    assert "Result: FAIL" in done.err
    assert "the variant timed out: the replay did not end within 2 s" in done.err
    assert "--timeout 2` repeats this verdict" in done.err
    alone = stages.run("run", "--variant", hangs, "--timeout", 2, "--", app).must(2)
    assert "--timeout is the limit of the replays of --check" in alone.err
