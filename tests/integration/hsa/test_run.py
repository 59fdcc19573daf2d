"""kc-run: an edited kernel in the place of the captured one, inside the program."""

from __future__ import annotations

import json
import re

import pytest
from programs import Build, Program, compile_once

from kerncap_stages.store import Store

KERNEL = "reverse_blocks"


# What OTHER adds to each sum.
ONE_MORE = sum(range(1, 1025))
BLEND = """#include <hip/hip_runtime.h>
extern "C" __global__ void _Z5blendIfEvPT_PKS0_S3_i(float* out, const float* left,
                                                       const float* right, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = (left[i] + right[i]) * 5;
}
"""


@pytest.fixture
def launches(stages, program):
    """The program, captured once: in the store of the stages."""
    app = program("launches")
    stages.capture(KERNEL, app)
    return app


def read_sums(out: str) -> dict[str, int]:
    return {
        line.split()[0]: int(line.split()[1])
        for line in out.splitlines()
        if line.startswith(("stream", "graph", "large"))
    }


def test_a_variant_runs_in_all_launches_and_the_program_stays_what_it_is(stages, launches, variant, tmp_path):
    page = tmp_path / "page.json"
    alone = stages.run("run", "--variant", variant("launches", "MORE"), "--", launches).must()
    words = ("--variant", variant("launches", "OTHER"), "--kernel", KERNEL, "--json", page)
    done = stages.run("run", *words, "--", launches, 7, stdin="a line\n").must(7)
    assert done.out.endswith("read a line\n")
    # MORE gives the captured kernel's results, with LDS and scratch of its own; OTHER adds one to each.
    assert {name: value + ONE_MORE for name, value in read_sums(alone.out).items()} == read_sums(done.out)
    assert set(read_sums(done.out)) == {"stream", "graph", "large"}
    assert "the variant ran in 9 dispatches of 2 processes" in done.err
    read = json.loads(page.read_text())
    assert read["exit_code"] == 7
    assert [(each["dispatches"], each["kept_dispatches"]) for each in read["kernels"]] == [(9, 0)]
    assert read["kernels"][0]["symbol"] == "_Z14reverse_blocksPKiPi"


def test_another_tool_in_the_cuda_driver_is_no_matter_of_a_hip_program(stages, launches, variant):
    words = ("--variant", variant("launches", "MORE"), "--kernel", KERNEL)
    script = f"{launches} && echo $CUDA_INJECTION64_PATH"
    done = stages.run(
        "run", *words, "--", "sh", "-c", script, CUDA_INJECTION64_PATH="/opt/tool/libtool.so"
    ).must()
    assert "the variant ran in 9 dispatches of 2 processes" in done.err
    assert done.out.endswith("/opt/tool/libtool.so\n")


def test_launches_that_the_variant_is_not_for_run_the_captured_kernel(stages, launches, variant):
    right = read_sums(stages.run("run", "--variant", variant("launches", "MORE"), "--", launches).must().out)
    bounded = stages.run("run", "--variant", variant("launches", "BOUNDED", "OTHER"), "--", launches).must()
    assert read_sums(bounded.out)["large"] == right["large"]
    assert read_sums(bounded.out)["graph"] != right["graph"]
    assert "the variant ran in 8 dispatches of 2 processes" in bounded.err
    assert (
        "1 dispatch whose launch the variant does not support; the latest had 4 x 1 x 1 blocks of 256"
        in bounded.err
    )


def test_a_variant_with_a_launch_of_its_own_runs_in_the_captured_one(stages, launches, variant, tmp_path):
    right = read_sums(stages.run("run", "--variant", variant("launches", "MORE"), "--", launches).must().out)
    wide = tmp_path / "wide.hsaco"
    wide.write_bytes(variant("launches", "WIDE", "OTHER").read_bytes())
    shape = {"grid_blocks": [8, 1, 1], "block_work_items": [128, 1, 1], "dynamic_lds_bytes": 512}
    wide.with_suffix(".shape.json").write_text(json.dumps(shape))
    done = stages.run("run", "--variant", wide, "--", launches).must()
    assert "the variant ran in 8 dispatches of 2 processes" in done.err
    assert read_sums(done.out) == right | {name: right[name] + ONE_MORE for name in ("stream", "graph")}


@pytest.mark.usefixtures("launches")
def test_a_kernel_that_is_not_there_is_said_and_the_exit_code_is_the_programs(stages, program, variant):
    words = ("--variant", variant("launches", "OTHER"), "--")
    other = stages.run("run", *words, program("vector_add")).must(1)
    assert "nothing was replaced: no code object that the program loaded has this kernel" in other.err
    silent = stages.run("run", *words, "sh", "-c", "kill -9 $$").must(137)
    assert "nothing was replaced: the program ended by SIGKILL before it loaded the kernel\n" in silent.err
    crashed = stages.run("run", *words, "sh", "-c", "ulimit -c 0; kill -SEGV $$").must(139)
    assert (
        "the program ended by SIGSEGV before it loaded the kernel\n  next: run the program alone"
        in crashed.err
    )
    assert "the program used no GPU" in stages.run("run", *words, "true").must(1).err
    # Ctrl-C is the program's own; other signals to kc-run are passed on to it.
    script = 'trap "exit 9" TERM; kill -INT $PPID; kill -TERM $PPID; sleep 60 & wait; exit 1'
    assert "nothing was replaced" in stages.run("run", *words, "sh", "-c", script).must(9).err


def test_check_compares_dispatches_of_this_run_and_compare_times_runs_by_turns(
    stages, launches, variant, tmp_path
):
    page = tmp_path / "page.json"
    wrong = stages.run("run", "--variant", variant("launches", "OTHER"), "--check", 1, "--", launches).must(1)
    assert wrong.out == ""
    assert "dispatch 0 (grid 16 x 1 x 1, block 64 x 1 x 1): Result: FAIL" in wrong.err
    before = Store.open(stages.store).resolve("@capture")
    words = ("--variant", variant("launches", "MORE"), "--check", 1, "--compare", 1, "--json", page)
    right = stages.run("run", *words, "--", launches, 3).must(3)
    assert "dispatch 0 (grid 16 x 1 x 1, block 64 x 1 x 1): Result: PASS" in right.err
    assert Store.open(stages.store).resolve("@capture") == before
    assert "a capture failed" not in right.err
    assert right.out.count("stream") == 1
    read = json.loads(page.read_text())["compare"]
    assert [len(read["captured_wall_ns"]), len(read["variant_wall_ns"]), read["confidence"]] == [1, 1, 0.0]
    assert read["interval"][0] <= read["ratio"] <= read["interval"][1]
    assert (read["wanted_pairs"], read["pairs"], read["on_software_gpu"]) == (1, 1, True)
    assert "timed: 1 run with each kernel, by turns; the first run of all, with the variant" in right.err
    assert re.search(r"wall times, variant / captured kernel: \d\.\d{4}, the median of 1 ratio", right.err)
    assert "on the software GPU: this says nothing about the time on hardware" in right.err


def test_a_failed_check_is_written_and_its_captures_are_listed(stages, launches, variant, tmp_path):
    page = tmp_path / "page.json"
    page.write_text("of an earlier run")
    words = ("--variant", variant("launches", "OTHER"), "--check", 1, "--json", page)
    wrong = stages.run("run", *words, "--", launches).must(1)
    read = json.loads(page.read_text())
    found = [(each["dispatch"], each["passed"]) for each in read["check"]]
    assert set(found) == {(0, False)}
    assert f"the variant was wrong in {len(found)} of {len(found)} compared dispatches" in wrong.err
    assert (read["exit_code"], read["kernels"][0]["dispatches"]) == (None, 0)
    captures = {each["capture"] for each in read["check"]}
    assert Store.open(stages.store).resolve("@capture") in captures
    for capture in captures:
        stages.run("store", "export", capture, "--output", tmp_path / f"{capture}.tar").must()


def test_check_says_where_there_is_nothing_to_compare(stages, program, variant):
    """The second dispatch writes what is there already."""
    app = program("idempotent")
    stages.capture("scale_into", app)
    done = stages.run("run", "--variant", variant("idempotent"), "--check", 2, "--", app).must()
    first, second = (line for line in done.err.splitlines() if "scale_into" in line and ": dispatch " in line)
    assert "Result: PASS  (byte-exact, 1 of 1 regions identical)" in first
    assert "nothing to compare" in second
    assert "PASS" not in second
    again = re.search(r"kc-(validate) (\w+) --variant (\S+)`", second)
    assert again is not None
    stages.run(again[1], again[2], "--variant", again[3]).must()
    nothing = variant("idempotent", "NOTHING")
    stages.run("validate", again[2], "--variant", nothing).must(1)


def test_a_variant_uses_the_variables_of_the_program(stages, launches, program, variant):
    done = stages.run("run", "--variant", variant("launches", "COUNTS"), "--", launches).must()
    # 6 launches of the parent: its variable is not the child's.
    assert "counted 6144" in done.out
    refused = stages.run(
        "run", "--any-code", "--variant", variant("launches", "COUNTS"), "--", launches
    ).must(6)
    assert "uses variables of the program: counted" in refused.err
    # Static variables, constant memory, tables: the variant goes by name only, the program has both ways.
    app = program("named_and_pointed")
    stages.capture("reach", app)
    named = stages.run("run", "--variant", variant("named_and_pointed", "BY_NAME"), "--", app).must()
    assert "the variant ran in" in named.err


def test_what_the_program_does_not_prepare_is_refused_before_it_starts(stages, program, launches, variant):
    larger = stages.run("run", "--variant", variant("launches", "LARGER"), "--", launches).must(6)
    assert "cannot use the program's variables: counted has 4 bytes in the program" in larger.err
    assert larger.out == ""
    stages.capture("scale_into", program("idempotent"))
    talks = stages.run("run", "--variant", variant("idempotent", "TALKS"), "--", program("idempotent")).must(
        6
    )
    assert "hidden arguments that the program does not pass" in talks.err
    assert "hidden_hostcall_buffer" in talks.err


def test_of_two_code_objects_with_one_name_the_captured_one_is_replaced(stages, program, tmp_path):
    source = tmp_path / "five.hip"
    source.write_text(BLEND)
    variant = compile_once(Build(Program(source), "gfx90a", "O3", device_only=True))
    app = program("run_time_compiled")
    stages.capture("blend", app, "gfx90a")
    done = stages.run("run", "--variant", variant, "--", app, "gfx90a").must(1)
    assert "by two" in done.out + done.err
    assert "wrong 1000" in done.out + done.err
    assert "the variant ran in 1 dispatch of 1 process" in done.err
    assert "left alone in 1 code object" in done.err
    both = stages.run("run", "--any-code", "--variant", variant, "--", app, "gfx90a").must(1)
    assert "wrong 2000" in both.out + both.err
