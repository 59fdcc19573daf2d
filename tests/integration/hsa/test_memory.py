"""Which memory a capture holds, and as what."""

from __future__ import annotations

import re

import pytest
from stages import addresses, region_at, word_in


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_tracked_memory_is_what_the_program_has(stages, program, seed):
    rounds = 5
    captures, printed = stages.capture_and_listen(
        "target", program("churn"), program("words_kernels"), seed, rounds, options=("--count", rounds)
    )
    assert "wrong 0" in printed
    truth: dict[int, set[tuple[str, int, int]]] = {round_: set() for round_ in range(rounds)}
    for round_, kind, base, size in re.findall(r"^(\d+) (\w+) (0x[0-9a-f]+) (\d+)$", printed, re.MULTILINE):
        truth[int(round_)].add((kind, int(base, 16), int(size)))
    kinds = {"device_coarse", "host_pinned", "host_registered", "vmem"}
    assert {kind for pieces in truth.values() for kind, _, _ in pieces} == kinds
    for round_, capture in enumerate(captures):
        regions = {
            (region["kind"], region["base_address"], region["size_bytes"])
            for region in capture["regions"]
            if region["kind"] in kinds
        }
        assert truth[round_] <= regions
        # What the runtime keeps for itself is there in every round.
        extra = regions - truth[round_]
        assert {size for _, _, size in extra} <= {4096, 2 * 1024 * 1024}, extra


def test_memory_of_another_process(stages, program):
    (capture,), printed = stages.capture_and_listen(
        "target", program("shared_memory"), program("words_kernels")
    )
    assert "wrong 0" in printed
    region = region_at(capture, addresses(printed)["shared"])
    assert region["kind"] == "ipc"
    assert region["size_bytes"] >= 64 * 1024
    assert word_in(stages, region, "pre", region["base_address"]) == 41
    assert word_in(stages, region, "post", region["base_address"]) == 42


def test_a_second_gpu_with_memory_of_the_first(stages, program):
    stages.gpus = 2
    (capture,), printed = stages.capture_and_listen("target(", program("two_gpus"))
    found = addresses(printed)
    assert capture["dispatch"]["device_index"] == 1
    assert len(capture["environment"]["devices"]) == 2
    own, peer = region_at(capture, found["own"]), region_at(capture, found["peer"])
    assert (own["device_index"], peer["device_index"]) == (1, 0)
    assert set(peer["accessible_from"]) == {0, 1}
    assert word_in(stages, own, "pre", found["own"]) == 4
    assert word_in(stages, own, "post", found["own"]) == 34
    assert word_in(stages, peer, "post", found["peer"]) == 30
    assert all(1 in region["accessible_from"] for region in capture["regions"])


def test_hundreds_of_code_objects(stages, program):
    captures, printed = stages.capture_and_listen(
        "target", program("many_modules"), program("words_kernels"), 500, options=("--count", 5)
    )
    assert "wrong 0" in printed
    assert len(captures) == 5
    assert len({capture["kernel"]["code_object"]["payload"] for capture in captures}) == 1
    addresses_loaded = [capture["loaded_code_objects"][0]["load_address"] for capture in captures]
    assert len(set(addresses_loaded)) == 5
    for number, capture in enumerate(captures):
        word = int.from_bytes(bytes.fromhex(capture["kernarg"])[:8], "little")
        assert word_in(stages, region_at(capture, word), "pre", word) == number


@pytest.mark.parametrize("svm", ["1", "0"])
def test_arguments_in_registered_memory(stages, program, svm):
    """Without the driver's SVM the GPU has registered memory at another address than the processor."""
    stages.variables["HSA_USE_SVM"] = svm
    (capture,), printed = stages.capture_and_listen(
        "target", program("registered_arguments"), program("words_kernels")
    )
    assert "wrong 0" in printed
    found = addresses(printed)
    assert (found["on_host"] == found["on_gpu"]) == (svm == "1")
    region = region_at(capture, found["on_gpu"])
    assert (region["kind"], region["base_address"]) == ("host_registered", found["on_gpu"])
    assert bytes.fromhex(capture["kernarg"])[:8] == found["word"].to_bytes(8, "little")
    assert [word_in(stages, region, state, found["word"]) for state in ("pre", "post")] == [41, 42]
    assert stages.replay("@capture").must().manifest["matches_golden"] is True


@pytest.mark.parametrize("fewer", ["none", "read_only"])
def test_rights_that_are_changed_during_captures(stages, program, fewer):
    """The call waits, as unmapping does: the capture's copies would fault."""
    captures, printed = stages.capture_and_listen(
        "target(", program("changed_rights"), 40, fewer, options=("--count", 10)
    )
    assert "wrong 0" in printed
    assert len(captures) == 10


def test_only_what_the_arguments_lead_to(stages, program):
    app = program("linked_list")
    (capture,), printed = stages.capture_and_listen("target(", app, options=("--reachable",))
    nodes = [int(value, 16) for value in re.findall(r"^node (0x[0-9a-f]+)$", printed, re.MULTILINE)]
    found = addresses(printed)
    assert len(nodes) == 4
    for address in [*nodes, found["table"], found["leaf"], found["sum"]]:
        assert region_at(capture, address)["pre"] is not None
    left_out = region_at(capture, found["unrelated"])
    assert left_out["pre"] is None
    assert left_out["left_out_reason"] == "not reachable from the arguments"
    assert capture["reach"] == "reachable"
    (everything,), printed = stages.capture_and_listen("target(", app)
    assert region_at(everything, addresses(printed)["unrelated"])["pre"] is not None
    assert everything["cost"]["copied_size_bytes"] > capture["cost"]["copied_size_bytes"]
    assert stages.replay("@capture~1").must().manifest["matches_golden"] is True


def test_managed_memory_that_was_freed_is_left_out(stages, program):
    """HIP frees it by munmap(), of which no call tells."""
    (capture,), printed = stages.capture_and_listen("target(", program("freed_managed"))
    assert "wrong 0" in printed
    found = addresses(printed)
    kept = region_at(capture, found["kept"])
    assert kept["kind"] == "managed"
    states = [word_in(stages, kept, state, found["kept"]) for state in ("pre", "post")]
    assert states == [41, 42]
    for region in capture["regions"]:
        begin, end = region["base_address"], region["base_address"] + region["size_bytes"]
        assert not begin <= found["replaced"] < end
    assert stages.replay("@capture").must().manifest["matches_golden"] is True


def test_managed_memory_that_is_unmapped_during_the_capture_is_left_out(stages, program):
    (capture,), printed = stages.capture_and_listen("target(", program("unmapped_managed"))
    assert "wrong 0" in printed
    found = addresses(printed)
    data = region_at(capture, found["data"])
    assert [word_in(stages, data, state, found["data"]) for state in ("pre", "post")] == [41, 42]
    left_out = region_at(capture, found["unmapped"])
    assert (left_out["pre"], left_out["post"]) == (None, None)
    assert left_out["left_out_reason"] == "the program unmapped it during the capture"
