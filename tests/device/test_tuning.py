"""kc-tune of a CUDA kernel by its times on the GPU: how long it spins is a -D value."""

from __future__ import annotations

import json

import pytest


@pytest.mark.alone  # a GPU that is shared gives each program slices of its time
def test_the_fastest_configuration_wins_by_its_time(kc, spins_project):
    (spins_project / "tune.toml").write_text("[define]\nSPIN = [200000, 50000, 400000, 100000]\n")
    kc.ok("kc-tune", "tuned", "--sampler", "grid", "--runs", 9, "--lines", "each.jsonl")
    told = {
        each["parameters"]["SPIN"]: each
        for each in map(json.loads, (kc.folder / "each.jsonl").read_text().splitlines())
    }
    assert told[50000]["outcome"] == "wrong"
    ratios = {spin: each["ratio"] for spin, each in told.items() if each["ratio"] is not None}
    assert ratios == pytest.approx({200000: 1.0, 400000: 2.0, 100000: 0.5}, rel=0.05)
    done = kc.ok("kc-tune", "tuned", "--trials", 0, "--apply")
    assert "is now SPIN=100000" in done.err
    assert "PASS" in kc.ok("kc-validate", "tuned").err
