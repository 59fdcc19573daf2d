"""Variants are judged on all cases of a project, and on held-out ones, which the project never gets."""

from __future__ import annotations

import pytest
from programs import SOURCES, Build, Program, compile_once
from stages import Stages

from kerncap_stages.store import Store


@pytest.fixture
def stages(tmp_path):
    Store.open(tmp_path / "store")
    return Stages(tmp_path / "store", tmp_path, "gfx90a")


@pytest.mark.slow
def test_each_case_counts_by_its_time(stages):
    app = compile_once(Build(Program(SOURCES / "edit_loop/three_sizes.hip"), "gfx90a", "O3"))
    (profile,) = stages.run("profile", "--", app).must().digests
    *shown, hidden = stages.run("capture", profile, "--cases", 3).must().digests
    words = ("--source-dir", SOURCES / "edit_loop", "--output", "project")
    stages.run("generate", *shown, hidden, "--held-out", hidden, *words).must()
    source = (stages.folder / "project/kernel_variant.cpp").read_text()
    (stages.folder / "plain.hip").write_text(source)
    narrow = source.replace("if (i < count)", "if (i < count && blockIdx.x < 8)")
    (stages.folder / "narrow.hip").write_text(narrow)
    made = stages.run("evaluate", "project", "plain.hip", "narrow.hip", "--json").must().manifest
    assert [each["capture"] for each in made["cases"]] == [f"manifest:{each}" for each in shown]
    plain, _ = made["variants"]
    assert plain["outcome"] == "right"
    weights = [each["weight"] for each in made["cases"]]
    assert all(weights)
    ratios = [each["time"]["ratio"] for each in plain["cases"]]
    weighed = sum(ratio * weight for ratio, weight in zip(ratios, weights, strict=True)) / sum(weights)
    assert plain["ratio"] == pytest.approx(weighed)
    held_out = stages.run("evaluate", "project", "narrow.hip", "--held-out", hidden, "--json").must(1)
    assert [each["held_out"] for each in held_out.manifest["cases"]] == [False, False, True]
    assert [each["passed"] for each in held_out.manifest["variants"][0]["cases"]].count(False) == 1
    assert "right for 2 of 3 cases" in held_out.err
    assert not list((stages.folder / "project/capture/store").rglob(f"*{hidden[2:]}*"))
