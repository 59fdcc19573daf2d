"""What is known to go wrong in kerncap and must not here, by the numbers of docs/compatibility.md."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from watching import number, watched

from kerncap_stages.machine.native_paths import LIBRARY_FOLDER
from kerncap_stages.store import Store

ON_HOST = {"host_pinned", "host_registered", "host_coarse", "managed"}
SYSTEM_SCOPE = 2
# hsa_amd_pointer_type_t
UNKNOWN, LOCKED, RESERVED, MAPPED = 0, 2, 5, 6


@pytest.fixture
def probed(stages, program):
    """Replay an artifact; returns the fence scopes of its dispatches, and by address (type, on the host)."""

    def replay(artifact, addresses=()):
        written = stages.folder / "probed"
        written.unlink(missing_ok=True)
        stages.variables |= {
            "HSA_TOOLS_LIB": str(program("probe_tool")),
            "PROBE_TOOL_FILE": str(written),
            "PROBE_TOOL_ADDRESSES": " ".join(f"{address:x}" for address in addresses),
        }
        done = stages.replay(artifact, "--iterations", 2).must()
        assert done.manifest["matches_golden"] is True, done.err
        text = written.read_text()
        memory = re.findall(r"^memory ([0-9a-f]+) (\d+) (\d)$", text, re.MULTILINE)
        return (
            [int(scope) for scope in re.findall(r"^scope (\d)$", text, re.MULTILINE)],
            {int(address, 16): (int(kind), on_host == "1") for address, kind, on_host in memory},
        )

    return replay


def test_number_7_dispatches_of_a_replay_fence_the_whole_system(stages, program, probed):
    (digest,) = stages.capture("add(", program("vector_add"))
    scopes, _ = probed(digest)
    assert len(scopes) >= 2
    assert set(scopes) == {SYSTEM_SCOPE}


def test_number_7_the_captured_dispatch_fences_the_whole_system(stages, program):
    """A tool between us and the device sees what we made of the program's dispatches."""
    written = stages.folder / "probed"
    stages.variables |= {"HSA_TOOLS_LIB": str(program("probe_tool")), "PROBE_TOOL_FILE": str(written)}
    options = ("--kernel", "target(", "--count", 3)
    stages.run("capture", *options, "--", program("many_dispatches"), 5, 3).must()
    scopes = [int(line.split()[1]) for line in written.read_text().splitlines() if line.startswith("scope")]
    assert scopes.count(SYSTEM_SCOPE) >= 3


def test_number_9_allocations_that_share_a_page_are_captured_and_replayed(stages, program):
    (capture,), printed = stages.capture_and_listen("add_up", program("shared_pages"))
    assert "wrong 0" in printed
    found = {
        name: int(value, 16) for name, value in re.findall(r"^(\w+) (0x[0-9a-f]+)$", printed, re.MULTILINE)
    }
    assert found["first"] // 4096 == found["second"] // 4096
    assert found["outer"] < found["inner"] < found["outer"] + 8 * 4096
    regions = [(region["base_address"], region["size_bytes"]) for region in capture["regions"]]
    assert all(base + size <= after for (base, size), (after, _) in itertools.pairwise(regions))
    for address in found.values():
        assert any(base <= address < base + size for base, size in regions)
    digest = Store.open(stages.store).resolve("@capture")
    for _ in range(3):
        assert stages.replay(digest, "--iterations", 2).must().manifest["matches_golden"] is True


@pytest.mark.parametrize(("name", "kernel"), [("pinned_memory", "transform"), ("memory_kinds", "target(")])
def test_number_16_host_memory_is_host_memory_in_a_replay(stages, program, probed, name, kernel):
    (digest,) = stages.capture(kernel, program(name), options=("--dispatch", 0))
    kinds = {region["base_address"]: region["kind"] for region in stages.show(digest)["regions"]}
    _, seen = probed(digest, kinds)
    assert {kinds[address] for address in seen} & ON_HOST
    for address, (pointer_type, on_host) in seen.items():
        if kinds[address] in ON_HOST:
            # Pages of the process: pinned, or opened to the GPU as they are and unknown to the runtime.
            assert (pointer_type, on_host) in ((LOCKED, True), (UNKNOWN, False)), (
                hex(address),
                kinds[address],
            )
        elif kinds[address] == "device_coarse":
            assert pointer_type in (RESERVED, MAPPED), (hex(address), kinds[address])


def test_number_15_a_variant_keeps_the_dynamic_lds_of_the_launch(stages, program, variant):
    """The variant's own static LDS is added to it; the larger of the two would be too little."""
    (digest,) = stages.capture("reverse", program("dynamic_lds"), options=("--dispatch", 2))
    replay = stages.replay(digest, "--variant", variant("dynamic_lds", "UNUSED", opt="O1")).must().manifest
    assert (replay["outcome"], replay["matches_golden"]) == ("completed", True)


def test_number_17_validating_writes_less_than_the_snapshot(stages, program, variant):
    """Of 64 MiB the kernel changes a few chunks: only these are stored again, however often it is run."""
    (digest,) = stages.capture("target(", program("large"), 64, 256)
    before = stored_bytes(stages)
    assert before > 64 << 20
    for options in (("--quick",), ("--quick", "--variant", variant("large"))):
        assert stages.run("validate", digest, *options, "--json").must().manifest["passed"] is True
    assert stored_bytes(stages) - before < 16 << 20


def stored_bytes(stages) -> int:
    return sum(path.stat().st_size for path in (stages.store / "objects").rglob("*") if path.is_file())


@pytest.mark.parametrize("words", [(100_000, 1, 1), (2_000, 80, 1)])
def test_number_18_a_dispatch_that_is_not_wanted_costs_no_allocation(words):
    """And next to no time; the bar of `make bench` is 1000 ns, and here the machine may be busy."""
    printed = watched([LIBRARY_FOLDER / "callback_bench", *words])
    assert number(printed, "counted") == 1
    assert number(printed, "allocations") == 0
    assert number(printed, "ns_per_dispatch") < 10_000


def test_number_19_times_are_of_the_runs_after_the_warm_up(stages, program):
    (digest,) = stages.capture("add(", program("vector_add"))
    replay = stages.replay(digest, "--iterations", 20, "--warmup", 3).must().manifest
    timing = replay["timing"]
    samples = sorted(timing["samples_ns"])
    assert (replay["plan"]["warmup"], len(samples)) == (3, 20)
    assert timing["median_ns"] == pytest.approx((samples[9] + samples[10]) / 2)
    assert samples[0] <= timing["p05_ns"] <= timing["median_ns"] <= timing["p95_ns"] <= samples[-1]
    assert timing["mean_ns"] == pytest.approx(sum(samples) / 20)


def test_the_table_names_tests_that_exist():
    top = Path(__file__).parents[3]
    table = re.findall(r"^\| (\d+) \|.*\|(.*)\|$", (top / "docs/compatibility.md").read_text(), re.MULTILINE)
    assert [int(fault) for fault, _ in table] == [1, 2, *range(5, 22), 24]
    sources = [path.read_text() for path in (top / "tests").rglob("*") if path.suffix == ".py"]
    for fault, tests in table:
        names = re.findall(r"`(test_\w+)`", tests)
        assert names, fault
        for name in names:
            assert any(f"def {name}(" in text for text in sources), (fault, name)
