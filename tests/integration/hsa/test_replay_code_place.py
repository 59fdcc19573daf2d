"""The captured code object lies at its own address again: names and pointers mean the same memory."""

from __future__ import annotations

import pytest


def captured(stages, program, name, kernel, *options):
    """The capture of a dispatch of a test program, its digest and its manifest."""
    (digest,) = stages.capture(kernel, program(name, stages.target), options=options)
    return digest, stages.show(digest)


def replays_three_times(stages, digest, *options):
    for _ in range(3):
        done = stages.replay(digest, *options).must()
        assert done.manifest["matches_golden"] is True, done.err


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_a_variable_is_the_same_by_name_and_by_pointer(stages, program, target):
    stages.target = target
    digest, capture = captured(stages, program, "named_and_pointed", "reach", "--dispatch", 1)
    total = next(each for each in capture["module_variables"] if each["symbol"] == "total")
    assert total["written_size_bytes"] > 0
    replays_three_times(stages, digest, "--iterations", 2)


def test_a_static_variable_is_restored_with_its_code_object(stages, program):
    digest, capture = captured(stages, program, "named_and_pointed", "reach", "--dispatch", 1)
    loaded = capture["loaded_code_objects"][0]
    data = [
        region
        for region in capture["regions"]
        if loaded["load_address"]
        <= region["base_address"]
        < loaded["load_address"] + loaded["load_size_bytes"]
    ]
    assert any(region["written_size_bytes"] for region in data)
    replays_three_times(stages, digest)


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_function_pointers_and_virtual_tables_in_memory_lead_to_the_same_code(stages, program, target):
    stages.target = target
    digest, _ = captured(stages, program, "stored_functions", "use")
    replays_three_times(stages, digest)


@pytest.mark.parametrize("name", ["virtual_calls", "function_pointers", "device_globals"])
def test_programs_with_tables_in_their_code_object(stages, program, name):
    kernel = {
        "virtual_calls": "measure",
        "function_pointers": "call",
        "device_globals": "accumulate",
    }[name]
    digest, _ = captured(stages, program, name, kernel)
    replays_three_times(stages, digest)


def test_the_same_kernels_recompiled_do_the_same_wherever_they_are(stages, program, variant):
    digest, _ = captured(stages, program, "stored_functions", "use")
    other = variant("stored_functions", "OTHER_LAYOUT")
    replays_three_times(stages, digest, "--variant", other)
    digest, _ = captured(stages, program, "kokkos_like", "launch_constant_memory", "--dispatch", 1)
    replays_three_times(stages, digest, "--variant", variant("kokkos_like", "UNUSED", opt="O1"))


def test_a_variant_with_padding_behind_it(stages, program, variant, tmp_path):
    digest, _ = captured(stages, program, "stored_functions", "use")
    padded = tmp_path / "padded.hsaco"
    padded.write_bytes(variant("stored_functions").read_bytes() + bytes(100))
    replays_three_times(stages, digest, "--variant", padded)


@pytest.mark.parametrize("way", ["BY_NAME", "BY_POINTER"])
def test_a_variant_may_reach_a_variable_either_way(stages, program, variant, way):
    """Its own variables are elsewhere; what it writes to either place counts, and the doubt is noted."""
    digest, _ = captured(stages, program, "named_and_pointed", "reach", "--dispatch", 1)
    done = stages.replay(digest, "--variant", variant("named_and_pointed", way)).must()
    assert done.manifest["matches_golden"] is True, done.err
    assert "the module variable total" in done.err


def test_a_variant_that_writes_a_variable_both_ways_is_refused(stages, program, variant):
    digest, _ = captured(stages, program, "named_and_pointed", "reach", "--dispatch", 1)
    done = stages.replay(digest, "--variant", variant("named_and_pointed", "UNUSED")).must(6)
    assert "total both by name and through a pointer" in done.err


def test_a_variant_keeps_its_own_initial_values_of_what_the_program_never_changed(
    stages, program, variant, tmp_path
):
    digest, capture = captured(stages, program, "named_and_pointed", "reach", "--dispatch", 1)
    stages.replay(
        digest, "--variant", variant("named_and_pointed", "OTHER_TABLE"), "--dump-output", tmp_path / "dump"
    ).must(1)  # it writes more than the captured kernel
    out = int.from_bytes(bytes.fromhex(capture["kernarg"])[16:24], "little")
    region = next(r for r in capture["regions"] if 0 <= out - r["base_address"] < r["size_bytes"])
    dump = (tmp_path / "dump" / f"region_{region['base_address']:016x}.bin").read_bytes()
    at = out - region["base_address"] + 12
    # The captured kernel changes the table: what counts is what it was before, not the variant's own.
    table, padding, total, untouched = 1, 9, 118, 50
    assert int.from_bytes(dump[at : at + 4], "little") == table + padding + total + untouched


def test_a_function_of_another_code_object_is_named_where_a_replay_misses_it(stages, program):
    (capture,), printed = stages.capture_and_listen(
        "call", program("foreign_code"), program("foreign_kernels"), options=("--exact",)
    )
    assert "wrong 0" in printed
    own, *others = capture["loaded_code_objects"]
    assert own["code_object"] == capture["kernel"]["code_object"]["payload"].removeprefix("file:")
    assert others
    assert all(other["code_object"] is None for other in others)
    done = stages.replay("@capture").must(4)
    assert done.manifest["outcome"] == "faulted", done.manifest
    assert "the program had another code object (file://" in done.manifest["explanation"]
