"""Work of other streams and engines around the captured dispatch."""

from __future__ import annotations

import struct

import pytest
from stages import region_at

from kerncap_stages.errors import ExitCode


def test_what_other_streams_write_is_outside_the_window(stages, program):
    (capture,), printed = stages.capture_and_listen("target(", program("busy_streams"))
    counters = [line.split()[1:] for line in printed.splitlines() if line.startswith("counter")]
    assert len(counters) == 3
    for address, at_launch, at_end in counters:
        region = region_at(capture, int(address, 16))
        assert region["pre"] == region["post"]
        offset = int(address, 16) - region["base_address"]
        (seen,) = struct.unpack_from("<i", stages.memory(region["pre"]), offset)
        # It was counting before, and it went on afterwards.
        assert 0 < seen < int(at_end)
        assert int(at_end) >= int(at_launch) + 20
    data = region_at(capture, int(printed.split("data ")[1].split()[0], 16))
    assert data["written_size_bytes"] > 0
    assert [region for region in capture["regions"] if region["written_size_bytes"]] == [data]


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


def test_a_stream_that_never_drains_fails_the_capture_and_not_the_program(stages, program):
    printed = stages.folder / "printed"
    app = program("never_drains")
    options = ["--kernel", "target(", "--wait", "2", "--app-stdout", printed]
    done = stages.run("capture", *options, "--", app).must(ExitCode.DEVICE)
    assert done.digests == []
    assert "another queue did not come to rest" in done.err
    assert "wrong 0" in printed.read_text()


def test_a_capture_after_a_failed_one_is_made(stages, program):
    captures, printed = stages.capture_and_listen(
        "target(", program("never_drains"), options=("--count", 2, "--wait", 2)
    )
    assert [capture["dispatch"]["index_of_kernel"] for capture in captures] == [1]
    assert "wrong 0" in printed


def test_a_target_that_hangs_does_not_stall_those_behind_it(stages, program):
    captures, printed = stages.capture_and_listen(
        "spin_until_set",
        program("hung_kernel"),
        program("words_kernels"),
        options=("--count", 3, "--wait", 1),
    )
    assert "wrong 0" in printed
    assert [capture["dispatch"]["index_of_kernel"] for capture in captures] == [2]
