"""Captured addresses that are taken: remedies are tried, then the range and its holder are named."""

from __future__ import annotations

import pytest


@pytest.fixture
def taken(stages, program, taker):
    """A capture, and variables under which what lies at an address is taken: ``taken(base)``."""
    (digest,) = stages.capture("scale_into", program("idempotent"))

    def variables(base, **more):
        preload = f"{stages.environment['LD_PRELOAD']}:{taker}"
        return {"LD_PRELOAD": preload, "KERNCAP_TEST_TAKE": f"{base:x}:1000", **more}

    return digest, stages.show(digest), variables


def test_what_holds_a_captured_region_is_named(stages, taken):
    digest, capture, variables = taken
    region = next(each for each in capture["regions"] if each["kind"] == "device_coarse")
    base = region["base_address"]
    done = stages.run("replay", digest, **variables(base)).must(4)
    assert f"{base:#x}-" in done.err
    assert f"by {base:#x}-{base + 0x1000:#x} r--p (anonymous memory)" in done.err


def test_what_holds_the_place_of_the_code_object_is_named(stages, taken):
    digest, capture, variables = taken
    base = capture["loaded_code_objects"][0]["load_address"]
    done = stages.run("replay", digest, **variables(base)).must(4)
    assert f"by {base:#x}-{base + 0x1000:#x} r--p (anonymous memory)" in done.err


def test_a_start_with_another_layout_is_tried(stages, taken):
    digest, capture, variables = taken
    region = next(each for each in capture["regions"] if each["kind"] == "device_coarse")
    once = variables(region["base_address"], KERNCAP_TEST_TAKE_ONCE="1")
    done = stages.run("replay", digest, "--json", **once).must()
    assert done.manifest["matches_golden"] is True
