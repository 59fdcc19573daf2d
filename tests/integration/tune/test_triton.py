"""kc-tune on a project of a Triton kernel: options, block sizes, and the grid that goes with them."""

from __future__ import annotations

import json
import sys

import pytest
from stages import Stages
from triton_package import PROGRAMS, install_triton, make_environment

from kerncap_stages.store import Store


@pytest.fixture
def stages(tmp_path):
    Store.open(tmp_path / "store")
    made = Stages(tmp_path / "store", tmp_path, "gfx90a")
    made.variables |= make_environment(install_triton(), tmp_path / "compiled")
    return made


def test_options_blocks_and_grids_are_tuned(stages):
    (digest,) = stages.capture("add_kernel", sys.executable, PROGRAMS / "kernels.py", "add")
    stages.run("generate", stages.run("locate", digest).must().digests[0], "-o", "project").must()
    project = stages.folder / "project"
    stages.run("tune", "project", "--init").must()
    first = (project / "tune.toml").read_text()
    assert "num_warps = [4, 2, 8]" in first
    assert "BLOCK = [256, 128, 512]" in first
    script = project / "reproducer.py"
    mine = script.read_text() + "# mine\n"
    script.write_text(mine)
    space = (
        '[triton]\nnum_warps = [4, 8]\nBLOCK = [256, 128]\n[launch]\ngrid = "ceil_div(grid_x * 256, BLOCK)"\n'
    )
    (project / "tune.toml").write_text(space)
    lines = stages.folder / "each.jsonl"
    stages.run("tune", "project", "--sampler", "grid", "--lines", lines).must()
    told = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [each["outcome"] for each in told] == ["right"] * 4
    grids = {each["parameters"]["BLOCK"]: each["launch"]["grid_blocks"] for each in told}
    assert grids == {256: [4, 1, 1], 128: [8, 1, 1]}
    assert script.read_text() == mine
    best = min(told, key=lambda each: each["ratio"])
    done = stages.run("tune", "project", "--trials", 0, "--apply").must()
    assert f"project/candidate.hsaco is now {best['name']}" in done.err
    assert "note: it is not" not in done.err
    warps, block = best["parameters"].values()
    assert f"'num_warps': {warps}," in script.read_text()
    assert f"'BLOCK': {block}," in script.read_text()
    assert script.read_text().endswith("# mine\n")
    assert "Result: PASS" in stages.run("validate", "project").must().err
    # What was found counts still: the winner changes what is no part of the question.
    again = stages.run("tune", "project", "--trials", 0).must()
    assert "Best of 4 configurations" in again.err
    # Without the grid half of the work is left undone.
    (project / "tune.toml").write_text("[triton]\nBLOCK = [128, 64]\n[launch]\ngrid = 4\n")
    assert "none is right" in stages.run("tune", "project").must(1).err
    (project / "tune.toml").write_text("[triton]\nWIDTH = [128]\n")
    assert "neither a constant nor an option" in stages.run("tune", "project").must(2).err
    (project / "tune.toml").write_text("[define]\nBLOCK = [128]\n")
    assert "[triton]" in stages.run("tune", "project").must(2).err
