"""Work of other streams around the captured dispatch."""

from __future__ import annotations

import struct

from stages import region_at

from kerncap_stages.errors import ExitCode

# CUDA loads a kernel at its first launch, and may wait for those that run: the program itself would hang.
ALL_AT_ONCE = {"CUDA_MODULE_LOADING": "EAGER"}


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


def test_a_stream_that_never_drains_fails_the_capture_and_not_the_program(stages, program, backend):
    printed = stages.folder / "printed"
    stages.variables |= ALL_AT_ONCE
    app = program("never_drains")
    options = ["--kernel", "target(", "--wait", "2", "--app-stdout", printed]
    done = stages.run("capture", *options, "--", app).must(ExitCode.DEVICE)
    assert done.digests == []
    why = {"hsa": "another queue did not come to rest", "cuda": "did not end in time"}
    assert why[backend] in done.err
    assert "wrong 0" in printed.read_text()


def test_a_capture_after_a_failed_one_is_made(stages, program):
    stages.variables |= ALL_AT_ONCE
    captures, printed = stages.capture_and_listen(
        "target(", program("never_drains"), options=("--count", 2, "--wait", 2)
    )
    assert [capture["dispatch"]["index_of_kernel"] for capture in captures] == [1]
    assert "wrong 0" in printed
