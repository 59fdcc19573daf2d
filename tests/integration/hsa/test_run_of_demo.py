"""kc-run with the demo's program, which launches its kernel with the same inputs each time."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from made_up import device_code
from programs import SOURCES
from stages import BackgroundStage, executable

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


def build(built: Path, kernels: Path = SOURCES / "demo/src/matvec.hip") -> Path:
    """Build the program, with the kernels of this file."""
    sources = [SOURCES / "demo/src/main.cpp", kernels]
    words = ["hipcc", "-O3", "--offload-arch=gfx90a", f"-I{SOURCES}/demo/include", *sources, "-o", built]
    subprocess.run(words, check=True, capture_output=True)
    return built


@pytest.fixture
def app(stages, tmp_path) -> Path:
    """The program, captured once."""
    built = build(tmp_path / "demo")
    stages.capture("add_rows", built)
    return built


@pytest.fixture
def variant(tmp_path):
    """Compile the program's kernels with another text in the place of the loop."""

    def compile_with(loop: str, bounds: str = "") -> Path:
        text = (SOURCES / "demo/src/matvec.hip").read_text()
        assert LOOP in text
        edited = tmp_path / "matvec.hip"
        edited.write_text(text.replace(LOOP, loop).replace("void add_rows", f"{bounds} void add_rows"))
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


def test_a_variant_that_ran_in_no_dispatch_is_exit_code_1(stages, app, variant, tmp_path):
    page = tmp_path / "page.json"
    words = ("--variant", variant(RIGHT), "--json", page, "--")
    renamed = tmp_path / "renamed.hip"
    renamed.write_text((SOURCES / "demo/src/matvec.hip").read_text().replace("add_rows", "add_all_rows"))
    other = build(tmp_path / "other", renamed)
    done = stages.run("run", *words, other).must(1)
    assert done.out.startswith("256 x 192, 3 steps")
    assert "no code object that the program loaded has this kernel (_ZN4demo8add_rows" in done.err
    assert "it loaded kernels with similar names: demo::add_all_rows" in done.err
    assert f"  next: `kc-profile -- {other}` lists the kernels that run" in done.err
    assert f"the kernel was captured in `{app}`" in done.err
    assert "the variant ran in no dispatch, so the exit code is 1; the program's own is 0" in done.err
    read = json.loads(page.read_text())
    assert (read["exit_code"], read["kernels"][0]["dispatches"]) == (0, 0)
    # The program's own exit codes are not changed: of 0 steps it says that they are wrong.
    never = stages.run("run", *words, app, 0).must(1)
    assert "the program loaded the kernel, and never launched it (_ZN4demo8add_rows" in never.err
    assert f"  next: `kc-profile -- {app} 0` lists the kernels that run" in never.err
    assert "the exit code is 1" not in never.err
    failed = stages.run("run", *words, "sh", "-c", "exit 7").must(7)
    assert "nothing was replaced: the program used no GPU" in failed.err
    assert "  next: check that the program runs on the GPU" in failed.err


@pytest.mark.usefixtures("app")
def test_a_rebuilt_program_has_other_code(stages, variant, tmp_path):
    edited = tmp_path / "edited.hip"
    edited.write_text((SOURCES / "demo/src/matvec.hip").read_text().replace(LOOP, RIGHT))
    rebuilt = build(tmp_path / "rebuilt", edited)
    words = ("--variant", variant(LOOP), "--", rebuilt)
    done = stages.run("run", *words).must(1)
    assert "nothing was replaced: a kernel of this name is there, in another code object" in done.err
    assert "  next: `--any-code` replaces it there, too" in done.err
    both = stages.run("run", "--any-code", *words).must()
    assert "the variant ran in 3 dispatches of 1 process" in both.err


def test_launches_that_the_variant_does_not_support_are_named(stages, app, variant, tmp_path):
    """The kernel was captured in smaller blocks, and the variant is for these alone."""
    narrow = tmp_path / "narrow.hip"
    launch = "<<<(shape.rows + 63) / 64, 64>>>"
    text = (SOURCES / "demo/src/matvec.hip").read_text()
    assert launch in text
    narrow.write_text(text.replace(launch, "<<<(shape.rows + 31) / 32, 32>>>"))
    stages.capture("add_rows", build(tmp_path / "narrow", narrow))
    bounded = variant(LOOP, bounds="__launch_bounds__(32)")
    done = stages.run("run", "--any-code", "--variant", bounded, "--", app).must(1)
    assert "nothing was replaced: the variant supports none of the launches" in done.err
    again = re.search(r"capture such a dispatch: `kc-(capture) (.*)`", done.err)
    assert again is not None
    stages.run("capture", *shlex.split(again[2])).must()


def test_a_variant_whose_newest_verdict_is_fail_is_named(stages, app, variant, tmp_path):
    page = tmp_path / "page.json"
    stale = variant(STALE)
    words = ("--variant", stale, "--json", page, "--", app)
    assert "verdict" not in stages.run("run", *words).must().err
    assert json.loads(page.read_text())["kernels"][0]["newest_verdict"] is None
    failed = stages.run("validate", "@capture", "--variant", stale).must(1).digests[0]
    done = stages.run("run", *words).must()
    says = f"the newest verdict on this code is FAIL: {failed[:12]}; `kc-show {failed[:12]}` shows why"
    assert f"kc-run: note: demo::add_rows(float const*, float const*, float*, Shape): {says}" in done.err
    kernel = json.loads(page.read_text())["kernels"][0]
    assert (kernel["newest_verdict"], kernel["newest_verdict_passed"]) == (failed, False)
    assert kernel["failed_verdict"] == failed
    quick = stages.run("validate", "@capture", "--variant", stale, "--quick").must().digests[0]
    told = stages.run("run", *words).must().err
    assert "PASS (captured state only), and an earlier one is FAIL: " + says.split(": ")[1] in told
    kernel = json.loads(page.read_text())["kernels"][0]
    assert (kernel["newest_verdict"], kernel["failed_verdict"]) == (quick, failed)


def test_ctrl_c_ends_a_comparison_with_what_it_found(stages, app, variant, tmp_path):
    """The program ends at once in the first runs, and waits in the sixth, until it is interrupted."""
    page, counted = tmp_path / "page.json", tmp_path / "counted"
    script = f"echo >> {counted}; test $(wc -l < {counted}) -lt 6 || sleep 600; {app}"
    words = ("--variant", variant(RIGHT), "--compare", 9, "--json", page, "--", "sh", "-c", script)
    command = [*executable("run"), *map(str, words)]
    with BackgroundStage(command, stages.environment, stages.folder) as run:
        run.wait_until(lambda: counted.exists() and counted.read_text().count("\n") == 6)
        run.process.send_signal(signal.SIGINT)
    assert run.exit_code == -signal.SIGINT  # 130 in a shell
    assert "interrupted after 2 of 9 pairs of runs" in run.err
    assert "timed: 2 runs with each kernel, by turns" in run.err
    assert re.search(r"start to its end, median: captured kernel [\d.]+ m?s, variant [\d.]+ m?s", run.err)
    assert "on the software GPU: this says nothing about the time on hardware" in run.err
    read = json.loads(page.read_text())
    assert (read["exit_code"], read["kernels"][0]["dispatches"]) == (0, 3)
    compared = read["compare"]
    assert (compared["wanted_pairs"], compared["pairs"]) == (9, 2)
    assert [len(compared[f"{kernel}_wall_ns"]) for kernel in ("captured", "variant")] == [2, 2]
    assert compared["interval"][0] <= compared["ratio"] <= compared["interval"][1]


def test_a_timed_run_that_ends_otherwise_leaves_what_was_found(stages, app, variant, tmp_path):
    page, counted = tmp_path / "page.json", tmp_path / "counted"
    script = f"echo >> {counted}; test $(wc -l < {counted}) -ne 4 || exit 3; {app}"
    words = ("--variant", variant(RIGHT), "--compare", 4, "--json", page, "--", "sh", "-c", script)
    done = stages.run("run", *words).must(5)
    assert "timing ended after 1 of 4 pairs of runs" in done.err
    assert "the program ended with exit code 3, and the first run" in done.err
    assert json.loads(page.read_text())["compare"]["pairs"] == 1


def test_what_is_no_code_object_is_named_before_the_program_runs(stages, app, tmp_path):
    def refuse(given: Path | str, *words: object) -> str:
        done = stages.run("run", "--variant", given, *words, "--", app).must(2)
        assert done.out == ""
        return done.err

    for words in ((), ("--capture", "@capture")):
        program = refuse(app, *words)
        what = "is a program or library for the CPU, which holds code for GPUs, not a code object"
        assert f"--variant {app} {what}" in program
        assert "  next: give the folder that kc-generate made; or give a code object, as `make rec" in program
        assert "The program that runs goes behind `--`" in program
    assert "--variant /bin/sh is a program or library for the CPU, not a code object" in refuse("/bin/sh")
    source = SOURCES / "demo/src/matvec.hip"
    assert f"--variant {source} is a text file, not a code object" in refuse(source)
    (tmp_path / "empty").touch()
    assert f"--variant {tmp_path}/empty is an empty file" in refuse(tmp_path / "empty")
    assert f"--variant {tmp_path}/none: there is no such file or folder" in refuse(tmp_path / "none")
    assert f"--variant {tmp_path} is neither a project nor a code object" in refuse(tmp_path)
    judged = stages.run("validate", "@capture", "--variant", app).must(2)
    assert f"{app} {what}" in judged.err


def test_a_page_that_cannot_be_written_is_refused_before_the_program_runs(stages, app, variant, tmp_path):
    for page, what in ((tmp_path / "none/page.json", "there is no folder"), (tmp_path, "is a folder")):
        done = stages.run("run", "--variant", variant(LOOP), "--json", page, "--", app).must(2)
        assert done.out == ""
        assert f"--json {page}: {what}" in done.err
