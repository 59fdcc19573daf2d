"""How dispatches come to a queue: graphs, batches, full rings, long runs."""

from __future__ import annotations

import struct

import pytest
from programs import TARGETS
from stages import region_at

from kerncap_stages.errors import ExitCode


@pytest.mark.parametrize("batch", [2, 63, 250])
def test_a_ring_that_is_kept_full(stages, program, batch):
    """Multi-packet submissions, one after another, and captures of some of them."""
    captures, printed = stages.capture_and_listen(
        "target",
        program("full_ring"),
        program("words_kernels"),
        batch,
        options=("--count", 3, "--every", 15, "--wait", 30),
    )
    assert "wrong 0" in printed
    assert [capture["dispatch"]["index_of_kernel"] for capture in captures] == [0, 15, 30]
    for number, capture in zip((0, 15, 30), captures, strict=True):
        (data,) = [region for region in capture["regions"] if region["written_size_bytes"]]
        # All that was submitted before the target is done, and nothing that was submitted after it has begun.
        others = (number + 1) * (batch - 2) + number
        assert [struct.unpack_from("<2I", stages.memory(data[state])) for state in ("pre", "post")] == [
            (others, number),
            (others, number + 1),
        ]


def test_a_ring_that_is_kept_full_is_profiled(stages, program):
    words = ["--json", "--", program("full_ring"), program("words_kernels"), 63]
    kernels = {
        kernel["name"]: kernel["calls"] for kernel in stages.run("profile", *words).must().manifest["kernels"]
    }
    assert (kernels["other"], kernels["target"]) == (190 * 62, 190)


def test_a_submission_that_fills_the_whole_ring(stages, program, rocm):
    """ROCr 7.2 hands all of it to the callback at once, and then there is no room for packets of ours."""
    ring = 4096
    printed = stages.folder / "printed"
    words = [
        "--kernel",
        "target",
        "--app-stdout",
        printed,
        "--",
        program("full_ring"),
        program("words_kernels"),
    ]
    done = stages.run("capture", *words, ring - 2, 1)
    assert "wrong 0" in printed.read_text()
    if rocm == "6.4":
        done.must()
        return
    done.must(ExitCode.REFUSED)
    assert "fills the whole queue" in done.err
    assert done.digests == []


@pytest.mark.parametrize("target", TARGETS)
def test_launches_behind_the_held_target_are_not_taken_for_its_writes(stages, program, target):
    """The program goes on launching, and puts the arguments of 20,000 dispatches beside the target's.

    HIP keeps them in host memory on gfx90a, and in device memory on gfx942.
    """
    stages.target = target
    words = ["--kernel", "other(", "--", program("many_dispatches", target), 20000, 1]
    (digest,) = stages.run("capture", *words).must().digests
    capture = stages.show(digest)
    (data,) = [region for region in capture["regions"] if region["written_size_bytes"]]
    assert data["written_size_bytes"] == 1
    assert struct.unpack_from("<2I", stages.memory(data["pre"])) == (0, 0)
    assert struct.unpack_from("<2I", stages.memory(data["post"])) == (1, 0)
    assert stages.replay(digest).must().manifest["matches_golden"] is True


@pytest.mark.parametrize("target", TARGETS)
def test_launches_of_many_streams_are_not_taken_for_the_held_targets_writes(stages, program, target):
    """Each stream has memory for arguments; they share queues, and one is first launched to meanwhile."""
    stages.target = target
    (digest,) = stages.capture("target", program("many_streams", target))
    capture = stages.show(digest)
    (data,) = [region for region in capture["regions"] if region["written_size_bytes"]]
    assert data["written_size_bytes"] == 1
    assert stages.replay(digest).must().manifest["matches_golden"]


def test_dispatches_after_static_destructors(stages, program):
    captures, printed = stages.capture_and_listen(
        "target", program("late_dispatch"), program("words_kernels"), options=("--count", 2)
    )
    assert "word 2" in printed
    assert len(captures) == 2
    for number, capture in enumerate(captures):
        address = int.from_bytes(bytes.fromhex(capture["kernarg"])[:8], "little")
        region = region_at(capture, address)
        offset = address - region["base_address"]
        states = [
            struct.unpack_from("<I", stages.memory(region[state]), offset)[0] for state in ("pre", "post")
        ]
        assert states == [number, number + 1]


def test_packets_that_a_kernel_submits_are_profiled(stages, program):
    words = [program("device_enqueue"), program("enqueue_kernels")]
    profile = stages.run("profile", "--json", "--", *words).must().manifest
    assert {kernel["name"]: kernel["calls"] for kernel in profile["kernels"]} == {
        "__amd_rocclr_scheduler": 3,
        "target": 3,
    }


@pytest.mark.parametrize("words", [("profile",), ("capture", "--kernel", "target")])
def test_nobody_watches_doorbells_before_a_kernel_that_submits_is_dispatched(stages, program, words):
    """The code object has such a kernel, as that of every OpenCL program has."""
    printed = stages.folder / "printed"
    command = [program("own_threads"), program("enqueue_kernels")]
    stages.run(*words, "--app-stdout", printed, "--", *command).must()
    threads = printed.read_text().split()
    assert "kc-listen" in threads
    assert "kc-doorbells" not in threads


@pytest.mark.parametrize(("kernel", "dispatch"), [("target", 0), ("target", 2)])
def test_packets_that_a_kernel_submits_are_captured(stages, program, kernel, dispatch):
    """No packet of ours comes into that queue, in which the kernel counts the places."""
    words = [program("device_enqueue"), program("enqueue_kernels")]
    captures, printed = stages.capture_and_listen(kernel, *words, options=("--dispatch", dispatch))
    assert "wrong 0" in printed
    (capture,) = captures
    assert capture["dispatch"]["index_of_kernel"] == dispatch


def test_a_kernel_that_submits_is_not_captured_and_the_program_goes_on(stages, program):
    """What it submitted runs before its post-state is copied."""
    printed = stages.folder / "printed"
    words = ["--app-stdout", printed, "--", program("device_enqueue"), program("enqueue_kernels")]
    done = stages.run("capture", "--kernel", "scheduler", *words).must(ExitCode.DEVICE)
    assert "another queue went on" in done.err
    assert "wrong 0" in printed.read_text()
