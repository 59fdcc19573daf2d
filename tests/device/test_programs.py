"""What only CUDA has: clusters, IPC, textures and so on. What all back ends must hold: tests/conformance."""

from __future__ import annotations

import subprocess

import pytest

EXACT = [
    ("vector_add", "vector_add", 4),
    ("busy_streams", "advance", 700),
    ("cluster", "grid_wide", 1),
    ("cluster", "neighbours", 1),
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


def test_the_program_is_not_changed_by_a_capture(kc, built):
    # Programs end with 1 when a result of theirs is wrong; kc-capture would warn of it.
    for program, kernel, dispatch in EXACT:
        done = kc.ok("kc-capture", "--kernel", kernel, "--dispatch", dispatch, "--", built[program])
        assert "warning" not in done.err, done.err
        assert "ok" in done.err.split()


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
