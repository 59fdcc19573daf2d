"""The frame of the benchmarks: bars, rounds, and a clear word where a machine is too small."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def bench(*arguments):
    command = [sys.executable, "-P", BENCHMARKS, "--build", "/nonexistent", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def frame(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import frame

    return frame


def test_every_row_of_the_store_is_there():
    listed = bench("--list").stdout
    for name in ("put", "put-again", "zeros", "get", "bf16", "memory"):
        assert f"store.{name} " in listed
    for name in ("objects.put", "objects.check", "objects.gc", "start.help", "start.page", "engine.alu"):
        assert f"{name} " in listed


@pytest.mark.parametrize("form", ["--json", "--markdown", "--rounds=1"])
def test_a_machine_that_is_too_small_gets_a_clear_word(tmp_path, form):
    done = bench("--only", "store.put", "--size", 10**6, "--folder", tmp_path, form)
    assert done.returncode == 1
    words = " ".join(done.stdout.split())
    assert "GiB free" in words
    assert "--size" in words
    if form == "--json":
        (row,) = json.loads(done.stdout)["rows"]
        assert (row["verdict"], row["figure"]) == ("MISS", None)
    assert list(tmp_path.iterdir()) == []


def test_a_row_that_is_not_there_is_named():
    done = bench("--only", "stores")
    assert done.returncode == 1
    assert "'stores'" in done.stderr


def test_bars_judge_the_ratio_or_the_value(frame):
    figure = frame.Figure(10.0, "GB/s", ceiling=20.0, ratio=0.5)
    assert frame.at_least(0.5).met(figure)
    assert not frame.at_least(0.51).met(figure)
    assert not frame.at_most(9, "value").met(figure)
    assert frame.at_most(10, "value").met(figure)


def test_rounds_take_turns_and_the_ratio_is_the_median_of_theirs(frame, tmp_path):
    order = []
    from stopwatch import Stopwatch

    seconds = {"ours": iter([2.0, 40.0, 6.0]), "plain": iter([1.0, 10.0, 2.0])}

    def measure(who):
        order.append(who)
        taken = Stopwatch().stop(next(seconds[who]))
        taken.cpu_s = 5.0 if who == "ours" else 2.0
        return taken

    run = frame.Run(size_bytes=1, rounds=3, folder=tmp_path, build=tmp_path)
    assert run.paired(lambda: measure("ours"), lambda: measure("plain")) == (6.0, 2.0, 3.0, 2.5)
    assert order == ["plain", "ours", "ours", "plain", "plain", "ours"]
