"""Times are what they are said to be: of kernels that run for a time that is known."""

from __future__ import annotations

import json

import pytest

EXPECTED_NS = {"takes_200_us": 200_000, "takes_1000_us": 1_000_000}
# The clock that the kernels look at ticks every microsecond on some GPUs.
SLACK = 0.03


def test_a_profile_gives_the_time_of_each_kernel(kc, built):
    profile = kc.show(kc.ok("kc-profile", "--", built["known_times"]).digest)
    found = {kernel["name"].split("(")[0]: kernel for kernel in profile["kernels"]}
    assert {name: kernel["calls"] for name, kernel in found.items()} == {"takes_200_us": 20, "takes_1000_us": 10}
    for name, expected_ns in EXPECTED_NS.items():
        assert found[name]["mean_ns"] == pytest.approx(expected_ns, rel=SLACK)


@pytest.mark.parametrize("kernel", EXPECTED_NS)
def test_a_replay_gives_the_time_of_its_kernel(kc, built, kernel):
    capture = kc.capture(kernel, built["known_times"])
    told = json.loads(kc.ok("kc-replay", capture, "--iterations", 5, "--json").out)
    assert told["timing"]["median_ns"] == pytest.approx(EXPECTED_NS[kernel], rel=SLACK)
