"""The frame of the benchmarks: bars, rounds, and a clear word where a machine is too small."""

from __future__ import annotations

import importlib.util
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
    for name in (
        "objects.put",
        "objects.check",
        "objects.gc",
        "start.help",
        "start.page",
        "start.many",
        "engine.alu",
        "evaluate.speed",
        "evaluate.workers",
        "fleet.ray",
    ):
        assert f"{name} " in listed
    assert "cannot be loaded" not in listed


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


@pytest.fixture
def bench_main(frame, monkeypatch):
    """benchmarks/__main__.py as a module, without rows."""
    spec = importlib.util.spec_from_file_location("bench_main", BENCHMARKS / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "bench_main", module)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(frame, "ROWS", [])
    spec.loader.exec_module(module)
    return module


def test_rows_that_fail_lose_no_other(bench_main, frame, tmp_path, monkeypatch, capsys):
    def fail(error):
        def measure(_run):
            raise error

        return measure

    (tmp_path / "part_that_lacks_something.py").write_text("import nothing_of_that_name\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    frame.row("a.wrong", "fails")(fail(ZeroDivisionError("one / none")))
    frame.row("a.exits", "exits")(fail(SystemExit(3)))
    bench_main.load(["part_that_lacks_something"])
    frame.row("b.right", "is measured", frame.at_least(1, "value"))(lambda _run: frame.Figure(2.0, "s"))
    run = frame.Run(size_bytes=1, rounds=1, folder=tmp_path, build=tmp_path)
    results = bench_main.measure_all(frame.ROWS, run)
    assert [(result.name, result.verdict, result.problem) for result in results] == [
        ("a.wrong", "MISS", "ZeroDivisionError: one / none"),
        ("a.exits", "MISS", "SystemExit: 3"),
        ("part_that_lacks_something", "MISS", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("b.right", "PASS", ""),
    ]
    assert "b.right: 2 s PASS" in capsys.readouterr().err


def test_an_interrupt_leaves_the_rows_before_it(bench_main, frame, tmp_path):
    def interrupt(_run):
        raise KeyboardInterrupt

    frame.row("a.right", "is measured")(lambda _run: frame.Figure(2.0, "s"))
    frame.row("b.long", "is interrupted")(interrupt)
    frame.row("c.next", "is not begun")(lambda _run: pytest.fail("begun"))
    run = frame.Run(size_bytes=1, rounds=1, folder=tmp_path, build=tmp_path)
    assert [result.name for result in bench_main.measure_all(frame.ROWS, run)] == ["a.right"]


def test_help_shows_how_to_choose_rows():
    done = bench("--help")
    assert done.returncode == 0
    for part in ("--only store,start.help", "--list", "--markdown", "GROUP.NAME"):
        assert part in done.stdout


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


def test_rounds_go_on_until_the_ratios_hold_still(frame, tmp_path):
    run = frame.Run(size_bytes=1, rounds=3, folder=tmp_path, build=tmp_path)
    noisy, calls = iter([1.0, 9.0, 2.0, 8.0, 1.0, 9.0, 5.0, 5.0, 5.0, 5.0] * 9), []

    def plain() -> float:
        calls.append(1)
        return 1.0

    run.paired(lambda: 3.0, plain, 3, most=30)
    assert len(calls) == 3  # steady: no more than asked for
    calls.clear()
    run.paired(lambda: next(noisy), plain, 3, most=30)
    assert len(calls) == 30
