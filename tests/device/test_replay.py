"""What a replay asks of the driver, and of CUPTI."""

from __future__ import annotations

import json
import os

import pytest

from kerncap_stages.machine.cupti import CUPTI, find_cupti_libraries
from kerncap_stages.manifests.kernel import LAUNCH_ATTRIBUTES

NUMBERS = {name: number for number, name in LAUNCH_ATTRIBUTES.items()}
OF_NODES = ("access_policy_window", "mem_sync_domain", "preferred_shared_memory_carveout", "priority")
GIVEN = {"dependent": (*OF_NODES, "programmatic_stream_serialization"), "in_graph": OF_NODES}

# Where a region lies: in a range that the driver reserves, or where the process's own memory does.
TAKEN = [("vector_add", "vector_add", "device"), ("host_memory", "add_all", "host_registered")]


def taken(kc, program, kernel, kind, taker):
    """A capture, and variables under which its first region of that kind is taken when a process starts."""
    digest = kc.capture(kernel, program)
    base = next(each["base_address"] for each in kc.show(digest)["regions"] if each["kind"].startswith(kind))
    return digest, (f"LD_PRELOAD={taker}", f"KERNCAP_TEST_TAKE={base:x}:1000")


@pytest.mark.parametrize(("kernel", "dispatch"), [("dependent", 2), ("in_graph", 1)])
def test_a_replay_has_the_launch_attributes_of_the_program(kc, built, tmp_path, kernel, dispatch):
    digest = kc.capture(kernel, built["launch_attributes"], dispatch=dispatch)
    captured = kc.show(digest)["launch"]["attributes"]
    assert captured["priority"].startswith("ffffffff")
    spied = tmp_path / "spied"
    spy = (
        f"CUDA_INJECTION64_PATH={built['launch_spy']}",
        f"LAUNCH_SPY_CUPTI={next(find_cupti_libraries(os.environ))}",
        f"LAUNCH_SPY_OUT={spied}",
    )
    kc.ok("env", *spy, "kc-replay", digest)
    lines = spied.read_text().splitlines()
    assert {f"{NUMBERS[name]} {captured[name]}" for name in GIVEN[kernel]} <= set(lines)


def test_a_replay_without_cupti_is_timed_by_events(kc, built):
    digest = kc.capture("takes_200_us", built["known_times"])
    words = ("kc-replay", digest, "--iterations", 10, "--json")
    told = json.loads(kc.ok("env", f"{CUPTI}={built['not_cupti']}", *words).out)
    assert told["environment"]["runtime_version"].endswith("timed by events")
    assert told["matches_golden"] is True
    # Events take some microseconds of their own.
    assert told["timing"]["median_ns"] == pytest.approx(200_000, rel=0.1)
    told = json.loads(kc.ok(*words).out)
    assert told["environment"]["runtime_version"].endswith("timed by CUPTI")


@pytest.mark.parametrize(("program", "kernel", "kind"), TAKEN)
def test_what_holds_a_captured_region_is_named(kc, built, taker, program, kernel, kind):
    digest, variables = taken(kc, built[program], kernel, kind, taker)
    done = kc.run("env", *variables, "kc-replay", digest)
    assert done.code == 4, done.err
    assert "of the capture are taken here, by" in done.err
    assert "anonymous memory" in done.err


@pytest.mark.parametrize(("program", "kernel", "kind"), TAKEN)
def test_a_start_with_another_layout_is_tried(kc, built, taker, program, kernel, kind):
    digest, variables = taken(kc, built[program], kernel, kind, taker)
    told = json.loads(kc.ok("env", *variables, "KERNCAP_TEST_TAKE_ONCE=1", "kc-replay", digest, "--json").out)
    assert told["matches_golden"] is True
