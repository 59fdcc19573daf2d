"""What a replay asks of the driver, and of CUPTI."""

from __future__ import annotations

import json
import os

import pytest

from kerncap_stages.collector.launch_facts import LAUNCH_ATTRIBUTES
from kerncap_stages.cupti import CUPTI, cupti_libraries

NUMBERS = {name: number for number, name in LAUNCH_ATTRIBUTES.items()}
GIVEN = (
    "access_policy_window",
    "mem_sync_domain",
    "preferred_shared_memory_carveout",
    "priority",
    "programmatic_stream_serialization",
)


def test_a_replay_has_the_launch_attributes_of_the_program(kc, built, tmp_path):
    digest = kc.capture("dependent", built["launch_attributes"], dispatch=2)
    captured = kc.show(digest)["launch"]["attributes"]
    assert captured["priority"].startswith("ffffffff")
    spied = tmp_path / "spied"
    spy = (
        f"CUDA_INJECTION64_PATH={built['launch_spy']}",
        f"LAUNCH_SPY_CUPTI={next(cupti_libraries(os.environ))}",
        f"LAUNCH_SPY_OUT={spied}",
    )
    kc.ok("env", *spy, "kc-replay", digest)
    lines = spied.read_text().splitlines()
    assert {f"{NUMBERS[name]} {captured[name]}" for name in GIVEN} <= set(lines)


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
