"""Replays from the captured state give the recorded one, whatever memory the kernel uses."""

from __future__ import annotations

import pytest
from stages import addresses

from kerncap_stages.errors import ExitCode


def replays_three_times(stages, digest):
    for _ in range(3):
        done = stages.replay(digest, "--iterations", 2).must()
        assert done.manifest["matches_golden"] is True, done.err


def captured(stages, program, name, kernel, *options):
    (digest,) = stages.capture(kernel, program(name, stages.target), options=options)
    return digest, stages.show(digest)


def kinds_written(capture):
    return {region["kind"] for region in capture["regions"] if region["written_size_bytes"]}


@pytest.mark.parametrize("number", range(4))
def test_pinned_and_registered_host_memory(stages, program, number):
    digest, capture = captured(stages, program, "pinned_memory", "transform", "--dispatch", number)
    assert kinds_written(capture) <= {"host_pinned", "host_registered", "host_coarse"}
    replays_three_times(stages, digest)


@pytest.mark.parametrize("number", range(2))
def test_memory_of_another_gpu(stages, program, number):
    """The first dispatch runs on GPU 1 and reads GPU 0, the second the other way round."""
    stages.gpus = 2
    digest, capture = captured(stages, program, "peer_copies", "add", "--dispatch", number)
    assert capture["dispatch"]["device_index"] == 1 - number
    owners = {region["device_index"] for region in capture["regions"] if region["kind"] == "device_coarse"}
    assert owners == {0, 1}
    replays_three_times(stages, digest)


@pytest.mark.parametrize("svm", ["1", "0"])
def test_host_memory_that_was_registered_twice(stages, program, svm):
    """Without the driver's SVM the GPU has it at two addresses: a replay would make two memories of it."""
    stages.variables["HSA_USE_SVM"] = svm
    _, printed = stages.capture_and_listen("target(", program("registered_twice"))
    assert "wrong 0" in printed
    found = addresses(printed)
    assert (found["second"] - found["first"] == 4096) == (svm == "1")
    if svm == "1":
        assert stages.replay("@capture").must().manifest["matches_golden"] is True
    else:
        done = stages.replay("@capture").must(ExitCode.REFUSED)
        assert "twice, and its GPU had that memory at two addresses" in done.err


@pytest.mark.parametrize(
    ("name", "kernel"),
    [("changed_state", "histogram"), ("virtual_memory", "through_both"), ("pinned_memory", "transform")],
)
def test_transfers_through_staging_buffers(stages, program, name, kernel):
    """Memory of the software GPU is the processor's own: its replays would never go another way."""
    digest, _ = captured(stages, program, name, kernel)
    stages.variables["KERNCAP_REPLAY_IN_PLACE"] = "0"
    replays_three_times(stages, digest)
