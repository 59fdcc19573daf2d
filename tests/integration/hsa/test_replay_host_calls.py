"""Kernels that call the host: printf and assert work in a replay as they did in the program."""

from __future__ import annotations

from kerncap_stages.errors import ExitCode


def test_printf_from_a_replayed_kernel_reaches_standard_error(stages, program):
    (digest,) = stages.capture("speak", program("device_printf"))
    kinds = {slot["value_kind"] for slot in stages.show(digest)["kernel"]["slots"]}
    assert "hidden_hostcall_buffer" in kinds
    done = stages.replay(digest).must()
    assert done.manifest["plan"]["hip_launch"] is True
    said = [line for line in done.err.splitlines() if line.startswith("lane ")]
    assert len(said) == 96
    assert "lane 5 of 7: 0.625 odd f 1000000000005 5050505" in said
    assert done.manifest["matches_golden"] is not False, done.err


def test_a_kernel_that_prints_validates(stages, program):
    (digest,) = stages.capture("speak", program("device_printf"))
    assert stages.run("validate", digest, "--json").must().manifest["passed"] is True


def test_a_variant_may_print_where_the_captured_kernel_did_not(stages, program, variant):
    (digest,) = stages.capture("scale_into", program("idempotent"))
    assert stages.replay(digest).must().manifest["plan"]["hip_launch"] is False
    done = stages.replay(digest, "--variant", variant("idempotent", "TALKS")).must()
    assert done.manifest["matches_golden"] is True, done.err
    assert done.err.count("scaled 3000 values in 24 blocks of 128") == 1


def test_addresses_in_the_devices_heap_differ_and_that_is_said(stages, program):
    """Memory that a kernel allocates comes from a heap that each process has of its own."""
    (digest,) = stages.capture("use_heap", program("grid_sync"))
    done = stages.replay(digest).must(ExitCode.ANSWER_IS_NO)
    assert "a replay has its own heap" in done.err
