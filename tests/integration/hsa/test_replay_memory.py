"""Replays from the captured state give the recorded one, whatever memory the kernel uses."""

from __future__ import annotations

import pytest

STATE_KERNELS = ("double_in_place", "accumulate", "histogram", "last_block_sums")


def replays_three_times(stages, digest):
    for _ in range(3):
        done = stages.replay(digest, "--iterations", 2).must()
        assert done.manifest["matches_golden"] is True, done.err


def captured(stages, program, name, kernel, *options):
    (digest,) = stages.capture(kernel, program(name, stages.target), options=options)
    return digest, stages.show(digest)


def kinds_written(capture):
    return {region["kind"] for region in capture["regions"] if region["written_size_bytes"]}


@pytest.mark.parametrize("kernel", STATE_KERNELS)
def test_what_depends_on_the_state_before_is_the_same_each_time(stages, program, variant, kernel):
    digest, _ = captured(stages, program, "changed_state", kernel, "--dispatch", 1)
    replays_three_times(stages, digest)
    nothing = stages.replay(digest, "--variant", variant("changed_state", "NOTHING")).must().manifest
    assert nothing["outcome"] == "completed"
    assert nothing["matches_golden"] is False


@pytest.mark.parametrize("kernel", ["scale_batch", "transpose", "walk"])
def test_memory_that_is_reached_through_memory(stages, program, kernel):
    digest, _ = captured(stages, program, "pointers_in_memory", kernel)
    replays_three_times(stages, digest)


@pytest.mark.parametrize("kernel", ["add_through", "through_both"])
def test_memory_that_is_mapped_by_hand(stages, program, kernel):
    digest, capture = captured(stages, program, "virtual_memory", kernel)
    assert "vmem" in kinds_written(capture)
    replays_three_times(stages, digest)


def test_a_mapping_that_was_read_only_is_so_again(stages, program, variant):
    digest, capture = captured(stages, program, "read_only_mapping", "sum_up")
    assert [region["kind"] for region in capture["regions"] if region["read_only"]] == ["vmem"]
    replays_three_times(stages, digest)
    done = stages.replay(digest, "--variant", variant("read_only_mapping", "WRITES")).must(4)
    assert done.manifest["outcome"] == "faulted"


@pytest.mark.parametrize("number", range(4))
def test_pinned_and_registered_host_memory(stages, program, number):
    digest, capture = captured(stages, program, "pinned_memory", "transform", "--dispatch", number)
    assert kinds_written(capture) <= {"host_pinned", "host_registered", "host_coarse"}
    replays_three_times(stages, digest)


def test_managed_memory_and_variables(stages, program):
    digest, capture = captured(stages, program, "managed_memory", "increment", "--dispatch", 1)
    assert kinds_written(capture)
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


@pytest.mark.parametrize(
    ("name", "kernel"),
    [("changed_state", "histogram"), ("virtual_memory", "through_both"), ("pinned_memory", "transform")],
)
def test_transfers_through_staging_buffers(stages, program, name, kernel):
    """Memory of the software GPU is the processor's own: its replays would never go another way."""
    digest, _ = captured(stages, program, name, kernel)
    stages.variables["KERNCAP_REPLAY_IN_PLACE"] = "0"
    replays_three_times(stages, digest)


def test_a_variant_that_does_nothing_fails_even_where_the_kernel_already_ran_on_the_data(
    stages, program, variant
):
    """The second of two identical dispatches changes nothing; the verdict must not rest on that."""
    again, second = captured(stages, program, "idempotent", "scale_into", "--dispatch", 1)
    assert not kinds_written(second)
    nothing = variant("idempotent", "NOTHING")
    assert stages.replay(again, "--variant", nothing).must().manifest["matches_golden"] is True
    done = stages.run("validate", again, "--variant", nothing, "--json").must(1)
    assert done.manifest["passed"] is False
    same = stages.run("validate", again, "--variant", variant("idempotent"), "--json").must()
    assert same.manifest["passed"] is True
