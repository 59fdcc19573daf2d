"""`make sweep`: how the output of other projects' tests is read."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools/sweep.py"
SPEC = importlib.util.spec_from_file_location("sweep", TOOL)
assert SPEC is not None
assert SPEC.loader is not None
sweep = importlib.util.module_from_spec(SPEC)
sys.modules["sweep"] = sweep  # dataclasses look their module up
sys.path.append(str(TOOL.parent))  # of what it imports
SPEC.loader.exec_module(sweep)

LISTED = """Running main() from gtest_main.cc
HipcubThing.
  Sorts
BlockScan/0.  # TypeParam = params<int, 256>
  Exclusive
Draws/checkin_lapack.
  solve/3  # GetParam() = { 10, 20 }
"""


@pytest.mark.parametrize(("words", "has_layer"), [("--help", False), ("-h", False), ("--seed 3", True)])
def test_help_needs_no_root_with_all_tests_of_the_libraries(words, has_layer):
    command = ["make", "-n", "-C", TOOL.parents[1], "sweep", f"ARGS={words}"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"tools/sweep.py {words}\n" in told
    assert ("library-tests" in told) is has_layer


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


def test_a_sample_of_rocblas_records_is_a_file_of_whole_records(tmp_path):
    source = tmp_path / "rocblas_gtest.data"
    records = [bytes([number]) * 24 for number in range(1, 101)]
    head = b"rocBLAS\0" + b"\7" * 24 + b"ROCblas\0"
    source.write_bytes(head + b"".join(records))
    made = sweep.sample_records(source, 10, Random(5))
    assert made.startswith(head)
    kept = [made[at : at + 24] for at in range(len(head), len(made), 24)]
    assert len(kept) == 10
    assert kept == sorted(set(kept))
    assert set(kept) <= set(records)
    assert made == sweep.sample_records(source, 10, Random(5))
    assert made != sweep.sample_records(source, 10, Random(6))


def test_another_file_than_of_rocblas_records_ends_the_sweep(tmp_path):
    source = tmp_path / "other.data"
    source.write_bytes(b"rocSPARS" + b"\7" * 100)
    with pytest.raises(SystemExit, match="no file of rocBLAS's tests"):
        sweep.sample_records(source, 10, Random(5))


def write_program(folder, name, script):
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("library", "left_out"),
    [("rocFFT", "pow2/bitwise_repro_test."), ("hipSPARSE", "csrmv_bin/parameterized_csrmv_bin.")],
)
def test_tests_that_need_files_which_are_not_there_are_left_out(tmp_path, library, left_out):
    program = write_program(tmp_path, "its-test", f"printf 'some/kind.\\n  a\\n{left_out}\\n  b\\n'")
    cases = sweep.list_cases(library, program, sweep.Programs())
    assert [case.name for case in cases] == ["its-test some/kind.a"]


def test_an_interrupted_sweep_keeps_what_has_run_and_leaves_no_program(tmp_path, monkeypatch, capsys):
    started = tmp_path / "started"
    script = (
        r"case $* in *list*) printf 'some.\n  a\n  b\n  c\n'; exit;; esac; "
        f"echo $$ >> {started}; [ $(wc -l < {started}) = 1 ] || {{ kill -INT $PPID; exec sleep 1000; }}"
    )
    program = write_program(tmp_path, "its-test", script)
    results = tmp_path / "results.json"
    monkeypatch.setattr(sweep, "find_programs", lambda _package: [program])
    monkeypatch.setattr(
        sys, "argv", ["sweep", "--library", "rocPRIM", "--workers", "1", "--json", str(results)]
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    try:
        with pytest.raises(SystemExit) as ended:
            sweep.main()
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.value.code == 130
    _, second = map(int, started.read_text().split())
    with pytest.raises(ProcessLookupError):
        os.killpg(second, 0)
    report = json.loads(results.read_text())
    assert report["interrupted"]
    assert [outcome["state"] for outcome in report["outcomes"]] == ["passed"]
    told = capsys.readouterr().out
    assert "rocPRIM" in told
    assert "interrupted after 1 test" in told


def test_no_program_starts_after_the_interrupt():
    programs = sweep.Programs()
    programs.stop()
    with pytest.raises(sweep.Stopped):
        programs.run(["true"], 10)


def test_a_file_that_cannot_be_written_is_refused_before_any_test(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["sweep", "--json", str(tmp_path / "absent/results.json")])
    with pytest.raises(SystemExit) as ended:
        sweep.main()
    assert ended.value.code == 2
    assert "cannot write" in capsys.readouterr().err
