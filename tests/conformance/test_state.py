"""Replays from the captured state give the recorded one, whatever the kernel does with its memory."""

from __future__ import annotations

import pytest

STATE_KERNELS = ("double_in_place", "accumulate", "histogram", "last_block_sums")


def replays_three_times(stages, digest):
    for _ in range(3):
        done = stages.replay(digest, "--iterations", 2).must()
        assert done.manifest["matches_golden"] is True, done.err


def captured(stages, program, name, kernel, *options):
    (digest,) = stages.capture(kernel, program(name), options=options)
    return digest, stages.show(digest)


def kinds_written(capture):
    return {region["kind"] for region in capture["regions"] if region["written_size_bytes"]}


def test_replay_from_the_pre_state_gives_the_post_state_every_time(stages, program):
    digest, capture = captured(stages, program, "vector_add", "add(")
    assert capture["kernel"]["mangled_name"] == "_Z3addPKfS0_Pfi"
    assert capture["launch"]["grid_blocks"][0] * capture["launch"]["block_work_items"][0] >= 10000
    written = [region for region in capture["regions"] if region["written_size_bytes"]]
    assert [region["kind"] for region in written] == ["device_coarse"]
    assert written[0]["pre"] != written[0]["post"]
    replays_three_times(stages, digest)


@pytest.mark.parametrize("kernel", STATE_KERNELS)
def test_what_depends_on_the_state_before_is_the_same_each_time(stages, program, variant, kernel):
    digest, _ = captured(stages, program, "changed_state", kernel, "--dispatch", 1)
    replays_three_times(stages, digest)
    nothing = stages.replay(digest, "--variant", variant("changed_state", "NOTHING")).must(1).manifest
    assert nothing["outcome"] == "completed"
    assert nothing["matches_golden"] is False
    assert nothing["timing"] is None


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


def test_the_baseline_validates(stages, program):
    digest, _ = captured(stages, program, "changed_state", "histogram", "--dispatch", 1)
    assert stages.run("validate", digest, "--baseline", "--json").must().manifest["passed"] is True


@pytest.mark.parametrize("kernel", ["scale_batch", "transpose", "walk"])
def test_memory_that_is_reached_through_memory(stages, program, kernel):
    digest, _ = captured(stages, program, "pointers_in_memory", kernel)
    replays_three_times(stages, digest)


def test_memory_that_is_mapped_by_hand(stages, program):
    digest, capture = captured(stages, program, "virtual_memory", "add_through")
    assert kinds_written(capture) == {"vmem"}
    replays_three_times(stages, digest)


def test_memory_that_is_mapped_twice(stages, program):
    digest, capture = captured(stages, program, "virtual_memory", "through_both")
    assert "vmem" in kinds_written(capture)
    replays_three_times(stages, digest)


def test_a_mapping_that_was_read_only_is_so_again(stages, program, variant):
    digest, capture = captured(stages, program, "read_only_mapping", "sum_up")
    assert [region["kind"] for region in capture["regions"] if region["read_only"]] == ["vmem"]
    replays_three_times(stages, digest)
    done = stages.replay(digest, "--variant", variant("read_only_mapping", "WRITES")).must(4)
    assert done.manifest["outcome"] == "faulted"


def test_managed_memory_and_variables(stages, program):
    digest, capture = captured(stages, program, "managed_memory", "increment", "--dispatch", 1)
    assert kinds_written(capture)
    replays_three_times(stages, digest)


def test_memory_of_every_kind(stages, program):
    digest, capture = captured(stages, program, "memory_kinds", "target(")
    assert {"host_registered", "managed", "vmem"} <= kinds_written(capture)
    replays_three_times(stages, digest)


def test_arrays_of_constants(stages, program):
    digest, _ = captured(stages, program, "constant_memory", "polynomial")
    replays_three_times(stages, digest)


def test_arguments_in_a_constant_buffer(stages, program):
    digest, capture = captured(stages, program, "kokkos_like", "launch_constant_memory", "--dispatch", 1)
    buffer = next(each for each in capture["module_variables"] if each["symbol"] == "constant_buffer")
    assert buffer["size_bytes"] == 32 * 1024
    replays_three_times(stages, digest)
