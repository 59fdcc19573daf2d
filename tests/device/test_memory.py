"""Kinds of memory that CUDA alone has, large states, and what is put back between runs."""

from __future__ import annotations

import re
import struct

import pytest
from nvidia_gpu import architecture
from stages import Stages, addresses, region_at, word_in

from kerncap_stages.store import Store


@pytest.fixture
def stages(tmp_path):
    (tmp_path / "work").mkdir()
    Store.open(tmp_path / "store")
    return Stages(store=tmp_path / "store", folder=tmp_path / "work", target=architecture())


KINDS = {
    "pitched": {"device_coarse"},
    "volume": {"device_coarse"},
    "own_pool": {"async_pool"},
    "mapped": {"host_pinned"},
    "write_combined": {"host_pinned"},
    "portable": {"host_pinned"},
    "managed_variable": {"managed", "code_object"},
}


def captured(stages, built, *words):
    (capture,), printed = stages.capture_and_listen("target", built["more_memory"], *words)
    assert "ok" in printed.split()
    return capture, addresses(printed)


def check_words(stages, capture, found):
    for number, (name, address) in enumerate(found.items(), 1):
        region = region_at(capture, address)
        assert word_in(stages, region, "pre", address) == 10 * number, name
        assert word_in(stages, region, "post", address) == 10 * number + 1, name
        assert region["written_size_bytes"] == 1, name


def test_memory_with_a_pitch_of_pools_and_of_the_host_is_captured_as_what_it_is(stages, built):
    capture, found = captured(stages, built)
    assert set(found) == set(KINDS)
    check_words(stages, capture, found)
    for name, kinds in KINDS.items():
        region = region_at(capture, found[name])
        assert region["kind"] in kinds, name
        on_host = name in ("mapped", "write_combined", "portable")
        assert (region["device_index"] is None) == (on_host or region["kind"] == "managed"), name
    replayed = stages.replay("@capture", "-n", 3).must().manifest
    assert replayed["matches_golden"] is True


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_tracked_memory_is_what_the_program_has(stages, built, seed):
    rounds = 5
    captures, printed = stages.capture_and_listen(
        "target", built["allocations"], seed, rounds, options=("--count", rounds)
    )
    assert "ok" in printed.split()
    truth = [set() for _ in range(rounds)]
    for round_, kind, base, size in re.findall(r"^(\d+) (\w+) (0x[0-9a-f]+) (\d+)$", printed, re.MULTILINE):
        truth[int(round_)].add((kind, int(base, 16), int(size)))
    kinds = {"device_coarse", "host_pinned", "host_registered", "managed", "async_pool", "vmem"}
    assert {kind for pieces in truth for kind, _, _ in pieces} == kinds
    for capture, pieces in zip(captures, truth, strict=True):
        assert pieces == {
            (region["kind"], region["base_address"], region["size_bytes"])
            for region in capture["regions"]
            if region["kind"] in kinds
        }


def test_memory_of_a_pool_on_the_host(stages, built):
    capture, found = captured(stages, built, "host_pool")
    check_words(stages, capture, found)
    assert stages.replay("@capture").must().manifest["matches_golden"] is True


# By where the program had memory: its kind, whether it is the host's, what is said of what stands in for it.
PLACES = {
    "device": ("device_coarse", False, ""),
    "mapped": ("vmem", True, ""),
    "pool": ("async_pool", True, ""),
    "managed_device": ("managed", True, "are on the device when the kernel begins"),
    "managed": ("managed", True, ""),
    "mapped_managed": ("managed", True, ""),
}


@pytest.mark.alone
@pytest.mark.parametrize("place", PLACES)
def test_memory_lies_where_it_lay_and_is_as_fast(stages, built, place):
    """On the host, the kernel takes about fifty times as long."""
    kind, is_of_host, stand_in = PLACES[place]
    options = ("--dispatch", 20)
    (capture,), printed = stages.capture_and_listen("target", built["placed_memory"], place, options=options)
    address, median_us = printed.split()[:2]
    region = region_at(capture, int(address, 16))
    assert region["kind"] == kind
    assert (region["device_index"] is None) == is_of_host
    assert ("stays_on_host" in region["flags"]) == (place in ("managed", "mapped_managed"))
    replayed = stages.replay("@capture", "-n", 20, "--warmup", 2).must()
    assert replayed.manifest["matches_golden"] is True
    assert stand_in in replayed.err
    assert ("managed memory" in replayed.err) == bool(stand_in)
    ratio = replayed.manifest["timing"]["median_ns"] / 1000 / float(median_us)
    # The program's own times are of events, which cost as much as the kernel on the device.
    assert 0.2 < ratio < 1.5, ratio
    stages.run("validate", "@capture").must()


def test_only_the_write_set_is_put_back_between_runs(stages, built, tmp_path):
    """Seen by what a variant writes elsewhere: that stays."""
    (capture,), _ = stages.capture_and_listen("vector_add", built["vector_add"], options=("--dispatch", 2))
    variant = built["counting.cubin"]
    options = ("--variant", variant, "--iterations", 5, "--warmup", 2, "--dump-output", tmp_path / "out")
    stages.replay("@capture", *options)
    a, c = struct.unpack_from("<QQ", bytes.fromhex(capture["kernarg"]))

    def float_at(address):
        region = region_at(capture, address)
        content = (tmp_path / "out" / f"region_{region['base_address']:016x}.bin").read_bytes()
        return struct.unpack_from("<f", content, address - region["base_address"])[0]

    ahead = 5 - 1  # one directly before each timed run but the first
    assert float_at(a + 4 * 7) == 7 + 2 + ahead + 5
    assert [float_at(c + 4 * i) for i in (7, 8)] == [3 * 7, 3 * 8]


@pytest.mark.alone
@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize("how", ["at_once", "async"])
def test_an_allocation_waits_for_room_behind_a_capture(stages, built, how):
    """Takes nearly all memory of the second GPU, which tests beside this one would not find."""
    stages.variables["CUDA_VISIBLE_DEVICES"] = "1"
    # The program ends with 1 where it gets no memory.
    options = ("--dispatch", 1)
    (capture,), printed = stages.capture_and_listen("target", built["growing"], how, options=options)
    assert "ok" in printed.split()
    assert max(region["size_bytes"] for region in capture["regions"]) == 4 << 30
    assert stages.replay("@capture").must().manifest["matches_golden"] is True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gib", "changed"), [(30, 32768), (4, 1 << 28)], ids=["4 MiB of 30 GiB", "all of 4 GiB"]
)
@pytest.mark.usefixtures("much_memory")
def test_a_large_state_is_captured_and_replayed_whole(stages, built, gib, changed):
    (capture,), printed = stages.capture_and_listen("target", built["large_state"], gib, changed)
    assert "ok" in printed.split()
    regions = [region for region in capture["regions"] if region["size_bytes"] == 1 << 30]
    assert len(regions) == gib
    # Four bytes of which an addition of 12345 changes two, and sometimes more.
    assert all(2 * changed <= region["written_size_bytes"] <= 4 * changed for region in regions)
    replayed = stages.replay("@capture").must().manifest
    assert replayed["matches_golden"] is True
    assert replayed["restored_size_bytes"] >= gib << 30
