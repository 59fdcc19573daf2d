"""The conformance list on an NVIDIA GPU: a replay does what the kernel did in its program, byte for byte."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

EXACT = [
    ("vector_add", "vector_add", 4),
    ("atomics", "histogram", 2),
    ("pointers", "follow", 0),
    ("globals", "use_globals", 1),
    ("memory_kinds", "add_to_all", 1),
    ("busy_streams", "advance", 700),
    ("cluster", "grid_wide", 1),
    ("cluster", "neighbours", 1),
    ("graph", "middle", 3),
    ("graph", "first", 0),
    ("graph", "last", 4),
]


@pytest.mark.parametrize(("program", "kernel", "dispatch"), EXACT)
def test_replay_repeats_what_the_program_saw(kc, built, program, kernel, dispatch):
    capture = kc.capture(kernel, built[program], dispatch=dispatch)
    shown = kc.show(capture)
    assert shown["dispatch"]["index_of_kernel"] == dispatch
    assert sum(region["written_size_bytes"] or 0 for region in shown["regions"]) > 0
    once = kc.show(kc.ok("kc-replay", capture).digest)
    assert once["outcome"] == "completed"
    assert once["matches_golden"] is True
    # The write set is put back between runs: in-place kernels give the same each time.
    again = kc.show(kc.ok("kc-replay", capture, "-n", 10, "--warmup", 2, "--flush-cache").digest)
    assert again["matches_golden"] is True
    assert len(again["timing"]["samples_ns"]) == 10


@pytest.mark.parametrize(("program", "kernel"), [("vector_add", "vector_add"), ("atomics", "histogram")])
def test_the_baseline_validates(kc, built, program, kernel):
    capture = kc.capture(kernel, built[program], dispatch=1)
    assert kc.run("kc-validate", capture, "--baseline").code == 0


def test_the_program_is_not_changed_by_a_capture(kc, built):
    # Programs end with 1 when a result of theirs is wrong; kc-capture would warn of it.
    for program, kernel, dispatch in EXACT:
        done = kc.ok("kc-capture", "--kernel", kernel, "--dispatch", dispatch, "--", built[program])
        assert "warning" not in done.err, done.err
        assert "ok" in done.err.split()


def test_profile_ranks_kernels(kc, built):
    profile = kc.show(kc.ok("kc-profile", "--", built["graph"]).digest)
    assert {kernel["name"].split("(")[0]: kernel["calls"] for kernel in profile["kernels"]} == {
        "first": 5, "middle": 5, "last": 5,
    }  # fmt: skip
    assert profile["environment"]["backend"] == "cuda"
    assert all(kernel["total_ns"] > 0 for kernel in profile["kernels"])


def test_a_profile_pipes_into_capture_and_replay(kc, built):
    profile = kc.ok("kc-profile", "--", built["vector_add"])
    capture = kc.run("kc-capture", stdin=profile.out)
    assert capture.code == 0, capture.err
    assert kc.run("kc-replay", stdin=capture.out).code == 0


def test_several_dispatches_in_one_run(kc, built):
    done = kc.ok(
        "kc-capture", "--kernel", "vector_add", "--count", 3, "--every", 2, "--", built["vector_add"]
    )
    captures = [kc.show(line) for line in done.out.split()]
    assert [capture["dispatch"]["index_of_kernel"] for capture in captures] == [0, 2, 4]
    # What the second run reads is what the runs before it had written.
    assert captures[0]["regions"][0]["pre"] == captures[1]["regions"][0]["pre"]


def test_forked_children_are_captured_each(kc, built):
    done = kc.ok("kc-capture", "--kernel", "mark", "--", built["forks"])
    captures = [kc.show(line) for line in done.out.split()]
    assert len({capture["dispatch"]["process_id"] for capture in captures}) == 2


def test_memory_of_another_process_is_captured_with_the_kernel(kc, built):
    capture = kc.show(kc.capture("add_shared", built["ipc"]))
    kinds = {region["kind"]: region for region in capture["regions"]}
    assert kinds["ipc"]["written_size_bytes"] > 0
    assert kc.show(kc.ok("kc-replay", "@capture").digest)["matches_golden"] is True


def test_a_kernel_on_the_second_gpu_is_captured_and_replayed_there(kc, built):
    needs_two_gpus()
    capture = kc.show(kc.capture("on_second", built["two_gpus"], dispatch=1))
    assert capture["dispatch"]["device_index"] == 1
    assert kc.show(kc.ok("kc-replay", "@capture").digest)["matches_golden"] is True


def test_a_kernel_that_is_given_another_gpus_memory_is_refused_by_name(kc, built):
    needs_two_gpus()
    done = kc.run("kc-capture", "--kernel", "across", "--", built["two_gpus"])
    if "peers" not in done.err:
        pytest.skip("the GPUs cannot reach each other's memory")
    assert done.code == 6, done.err
    assert "memory of GPU 1" in done.err


def needs_two_gpus():
    told = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, check=True)
    if len(told.stdout.splitlines()) < 2:
        pytest.skip("needs two GPUs")


def test_a_kernel_that_never_runs_is_an_answer(kc, built):
    done = kc.run("kc-capture", "--kernel", "no_such_kernel", "--", built["vector_add"])
    assert done.code == 1
    assert "vector_add" in done.err
    late = kc.run("kc-capture", "--kernel", "vector_add", "--dispatch", 99, "--", built["vector_add"])
    assert late.code == 1
    assert "10 times" in late.err


@pytest.mark.parametrize(
    ("program", "kernel", "word"),
    [
        ("texture", "sample", "texture"),
        ("surface", "draw", "surface"),
        ("device_heap", "allocate", "heap"),
        ("device_launch", "outer", "device-side launches"),
    ],
)
def test_what_cannot_be_captured_is_refused_by_name(kc, built, program, kernel, word):
    done = kc.run("kc-capture", "--kernel", kernel, "--", built[program])
    assert done.code == 6, done.err
    assert word in done.err
    assert "ok" in done.err.split()


def test_a_killed_program_leaves_nothing(kc, built):
    command = ["kc-capture", "--kernel", "tick", "--dispatch", "1000000000", "--", str(built["spin"])]
    running = subprocess.Popen(
        command, cwd=kc.folder, env={**os.environ, "KERNCAP_STORE": str(kc.store)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for line in running.stderr:
        if "spinning" in line:
            break
    children = subprocess.run(["pgrep", "-P", str(running.pid)], capture_output=True, text=True, check=True)
    time.sleep(0.5)  # somewhere in the middle of it; nothing depends on where
    for child in children.stdout.split():
        os.kill(int(child), signal.SIGKILL)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 5, err
    assert out == ""
    assert kc.ok("kc-store", "check").code == 0
