"""Variants that do not do the same each time, and those that only look so."""

from __future__ import annotations

import pytest


@pytest.fixture
def judge(stages, program, variant):
    def validate(way, dispatch, *words, code):
        (digest,) = stages.capture("scale_into", program("idempotent"), options=("--dispatch", dispatch))
        file = variant("unsteady_variants", way)
        return stages.run("validate", digest, "--variant", file, "--json", *words).must(code)

    return validate


@pytest.mark.parametrize(
    ("way", "dispatch"), [("FIRST_ONLY", 0), ("FIRST_ONLY", 1), ("TICKETS_KEPT", 1)], ids=str
)
def test_what_is_right_in_its_first_launch_only_fails(judge, way, dispatch):
    done = judge(way, dispatch, code=1)
    assert "not deterministic: " in done.err
    assert not done.manifest["stray_writes"]


def test_what_is_wrong_now_and_then_fails(judge):
    done = judge("NOW_AND_THEN", 0, "--variant-runs", 9, code=1)
    assert "not deterministic: 2 of 8 further runs" in done.err
    assert done.manifest["variant_runs"] == 9
    wrong = [region for region in done.manifest["regions"] if not region["passed"]]
    assert [region["elements_out_of_bounds"] for region in wrong] == [1]
    once = judge("NOW_AND_THEN", 0, "--variant-runs", 1, code=0)
    assert once.manifest["variant_runs"] == 1


@pytest.mark.parametrize("flags", [(), ("--rtol", "1e-6")], ids=["exact", "bounds"])
def test_memory_of_its_own_that_ends_as_it_began_does_no_harm(judge, flags):
    done = judge("TICKETS", 0, *flags, code=0)
    assert done.manifest["variant_runs"] >= 2
    assert "not deterministic" not in done.err


def test_a_later_run_that_faults_or_hangs_is_told_as_such(judge):
    assert "faulted: once more from the same state" in judge("FAULTS_LATER", 0, code=1).err
    done = judge("HANGS_LATER", 0, "--timeout", 20, code=1)  # the first run ends within them
    assert "the first run ended, but a further one from the same state did not" in done.err


def test_what_a_variant_prints_is_shown_once(stages, program, variant):
    (digest,) = stages.capture("scale_into", program("idempotent"))
    done = stages.run(
        "validate", digest, "--variant", variant("idempotent", "TALKS"), "--quick", "--json"
    ).must()
    assert done.manifest["variant_runs"] >= 2
    assert done.err.count("scaled 3000 values") == 1


def test_what_a_variant_prints_is_shown_once_in_a_later_verdict(stages, program, variant):
    (digest,) = stages.capture("scale_into", program("idempotent"))
    stages.run("validate", digest, "--variant", variant("idempotent", "RIGHT")).must()
    done = stages.run("validate", digest, "--variant", variant("idempotent", "TALKS")).must()
    assert done.err.count("scaled 3000 values") == 1
