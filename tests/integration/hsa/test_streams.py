"""Work of other streams and engines around the captured dispatch."""

from __future__ import annotations

import struct

import pytest
from stages import region_at

from kerncap_stages.errors import ExitCode


@pytest.mark.parametrize("sdma", ["1", "0"])
def test_a_copy_queued_behind_the_target_does_not_block_the_capture(stages, program, sdma):
    stages.variables["HSA_ENABLE_SDMA"] = sdma
    captures, _ = stages.capture_and_listen(
        "target(", program("copy_behind"), options=("--count", 3, "--wait", 20)
    )
    assert [capture["dispatch"]["index_of_kernel"] for capture in captures] == [0, 1, 2]
    for round_, capture in enumerate(captures):
        (data,) = [region for region in capture["regions"] if region["written_size_bytes"]]
        for state, factor in (("pre", round_), ("post", round_ + 1)):
            words = struct.unpack_from("<1000i", stages.memory(data[state]))
            assert words == tuple(3 + factor * i for i in range(1000))


def test_a_stream_that_waits_for_a_value_behind_the_target_is_at_rest(stages, program):
    """By a packet: without the variable HIP waits by a kernel."""
    stages.variables["GPU_STREAMOPS_CP_WAIT"] = "1"
    captures, printed = stages.capture_and_listen(
        "target(", program("wait_value"), "signal", options=("--count", 3, "--wait", 20)
    )
    assert "wrong 0" in printed
    assert [capture["dispatch"]["index_of_kernel"] for capture in captures] == [0, 1, 2]
    assert stages.replay("@capture").must().manifest["matches_golden"] is True


def test_a_kernel_that_waits_for_what_comes_behind_the_target_never_rests(stages, program):
    printed = stages.folder / "printed"
    words = [
        "--kernel",
        "target(",
        "--wait",
        "2",
        "--app-stdout",
        printed,
        "--",
        program("wait_value"),
        "host",
    ]
    done = stages.run("capture", *words).must(ExitCode.DEVICE)
    assert "another queue did not come to rest" in done.err
    assert "waits for work submitted after it" in done.err
    assert "wrong 0" in printed.read_text()


def test_a_target_that_hangs_does_not_stall_those_behind_it(stages, program):
    captures, printed = stages.capture_and_listen(
        "spin_until_set",
        program("hung_kernel"),
        program("words_kernels"),
        options=("--count", 3, "--wait", 1),
    )
    assert "wrong 0" in printed
    # On a busy machine the second one may be seen before the first; then none hangs, and all are captured.
    indices = [capture["dispatch"]["index_of_kernel"] for capture in captures]
    assert indices in ([2], [1, 0, 2])


def test_queues_that_are_made_during_a_capture_are_held(stages, program):
    captures, printed = stages.capture_and_listen(
        "target", program("new_queues"), program("words_kernels"), 128, options=("--wait", 30)
    )
    assert "wrong 0" in printed
    counter = region_at(captures[0], int(printed.split("counter ")[1].split()[0], 16))
    assert counter["pre"] == counter["post"]


def test_a_queue_that_is_destroyed_while_it_is_about_to_be_held(stages, program):
    captures, printed = stages.capture_and_listen(
        "target", program("full_queue_goes"), program("words_kernels")
    )
    assert "wrong 0" in printed
    assert len(captures) == 1
