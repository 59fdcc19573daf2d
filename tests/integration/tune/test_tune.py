"""kc-tune on the software GPU: the whole space, wrong ones that do not win, reruns, the winner's place."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest
from stages import executable

SPACE = """
constraints = ["TILE * UNROLL <= 128"]
[define]
TILE = [16, 32, 64]
UNROLL = { min = 1, max = 8, factor = 2 }
"""
# 3 * 4 without 32 * 8, 64 * 4 and 64 * 8
ALLOWED = 9


@pytest.fixture
def project(stages):
    folder = stages.folder / "project"
    (folder / "tune.toml").write_text(SPACE)
    return folder


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.usefixtures("project")
def test_the_space_is_tried_to_its_end_and_a_wrong_one_does_not_win(stages):
    lines = stages.folder / "each.jsonl"
    done = stages.run("tune", "project", "--seed", 1, "--lines", lines).must()
    told = read_lines(lines)
    tried = {tuple(each["parameters"].values()): each for each in told}
    assert len(told) == len(tried) == ALLOWED
    for (tile, unroll), each in tried.items():
        expected = "not_built" if unroll > 4 else "wrong" if tile == 64 else "right"
        assert each["outcome"] == expected, (tile, unroll, each)
        assert (each["ratio"] is None) == (expected != "right")
    best = min((each for each in told if each["ratio"]), key=lambda each: each["ratio"])
    assert best["parameters"]["TILE"] == 32
    assert best["ratio"] < tried[16, 1]["ratio"]
    assert "TILE=32" in done.err
    assert "no other configuration was found that the constraints allow" in done.err
    (digest,) = done.digests
    made = stages.show(digest)
    assert made["kind"] == "evaluation"
    assert made["complete"]
    assert {each["name"] for each in made["variants"]} == {f"TILE={x} UNROLL={y}" for x, y in tried}
    # A rerun has nothing to do, and knows the best one.
    again = stages.run("tune", "project", "--seed", 1).must()
    assert again.digests == [digest]
    assert f"Best of {ALLOWED} configurations in all runs: {best['ratio']:.3f}" in again.err


def test_the_winner_becomes_the_projects_variant_and_no_edit_is_lost(stages, project):
    flags = project / "compile_flags.rsp"
    mine = flags.read_text() + '"-DMINE=1"\n'
    flags.write_text(mine)
    (project / "optimized.hsaco").write_text("mine")
    before = stages.run("tune", "project", "--sampler", "grid", "--trials", 7).must()
    assert flags.read_text() == mine
    assert (project / "optimized.hsaco").read_text() == "mine"
    assert "kc-tune project --trials 0 --apply" in before.err
    applied = stages.run("tune", "project", "--trials", 0, "--apply").must()
    assert "is now TILE=32 UNROLL=4" in applied.err
    assert "note:" not in applied.err
    assert flags.read_text().startswith(mine)
    assert flags.read_text().splitlines()[-2:] == ['"-DTILE=32"', '"-DUNROLL=4"']
    kept = project / "tune/before-1"
    assert (kept / "compile_flags.rsp").read_text() == mine
    assert (kept / "optimized.hsaco").read_text() == "mine"
    assert "PASS" in stages.run("validate", "project").must().err
    # Applied again, nothing changes. Another winner takes the first one's place.
    stages.run("tune", "project", "--trials", 0, "--apply").must()
    assert not (project / "tune/before-2").exists()
    (project / "tune.toml").write_text("[define]\nTILE = [16]\n")
    stages.run("tune", "project", "--apply").must()
    assert flags.read_text() == mine + '"-DTILE=16"\n'
    assert (project / "tune/before-2/compile_flags.rsp").read_text() == mine + '"-DTILE=32"\n"-DUNROLL=4"\n'


def test_launches_are_tuned_with_what_they_need(stages, project):
    (project / "tune.toml").write_text(
        """
[values]
BLOCK = [16, 64, 128, 32]
[launch]
block = "BLOCK"
grid = ["ceil_div(grid_x * block_x, BLOCK if BLOCK < 128 else 256)"]
"""
    )
    lines = stages.folder / "each.jsonl"
    stages.run("tune", "project", "--sampler", "grid", "--lines", lines).must()
    told = {each["parameters"]["BLOCK"]: each for each in read_lines(lines)}
    assert {block: each["outcome"] for block, each in told.items()} == {
        16: "right", 64: "right", 128: "right", 32: "right",
    }  # fmt: skip
    assert told[64]["launch"] == {
        "grid_blocks": [2, 1, 1], "block_work_items": [64, 1, 1], "dynamic_lds_bytes": None
    }  # fmt: skip
    assert told[64]["ratio"] < told[16]["ratio"]
    stages.run("tune", "project", "--apply", "--trials", 0).must()
    shape = json.loads((project / "optimized.shape.json").read_text())
    best = min(told.values(), key=lambda each: each["ratio"])
    assert shape == {name: value for name, value in best["launch"].items() if value is not None}
    assert "launched as" in stages.run("validate", "project").must().err


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_ctrl_c_keeps_what_was_judged_and_the_same_command_goes_on(stages, number):
    words = ("project", "--sampler", "grid", "--jobs", 1)
    process = subprocess.Popen(
        [*executable("tune"), *map(str, words)],
        env=stages.environment, cwd=stages.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    first = [process.stderr.readline() for _ in range(2)]
    assert all(line.startswith("right") for line in first), first
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == -number, err
    assert "interrupted: " in err
    assert "Best of " in err
    partial = stages.show(out.strip())
    assert not partial["complete"]
    assert 2 <= len(partial["variants"]) < ALLOWED
    lines = stages.folder / "each.jsonl"
    stages.run("tune", *words, "--lines", lines).must()
    assert len(read_lines(lines)) == ALLOWED - len(partial["variants"])


def test_an_edit_of_the_source_begins_anew(stages, project):
    (project / "tune.toml").write_text("[define]\nTILE = [32, 16]\n")
    stages.run("tune", "project").must()
    source = project / "kernel_variant.cpp"
    source.write_text(source.read_text().replace("int sum = 0;", "int sum = 1;"))
    lines = stages.folder / "each.jsonl"
    wrong = stages.run("tune", "project", "--lines", lines).must(1)
    assert [each["outcome"] for each in read_lines(lines)] == ["wrong", "wrong"]
    assert "none is right" in wrong.err
    assert "nothing was judged" not in wrong.err


def test_values_without_effect_are_told(stages, project):
    source = project / "kernel_variant.cpp"
    source.write_text(source.read_text().replace("#ifndef TILE", "#if 1\n#undef TILE"))
    (project / "tune.toml").write_text("[define]\nTILE = [32, 16]\n")
    assert "all configurations are the same" in stages.run("tune", "project").must().err


def test_what_cannot_be_tuned_is_refused_at_once(stages, project):
    space = project / "tune.toml"
    for text, said in (
        ('[flags]\nload = ["", "-fplugin=evil.so"]\n', "could do more than change the code"),
        ("[triton]\nnum_warps = [4]\n", "Triton does not compile"),
        ("constraints = [\"__import__('os')\"]\n[define]\nTILE = [1]\n", "is not possible here"),
        ("[define]\n", "0 parameters"),
    ):
        space.write_text(text)
        assert said in stages.run("tune", "project").must(2).err, text
    space.write_text('[values]\nBLOCK = [16, 2048, 0]\n[launch]\nblock = "BLOCK"\n')
    told = stages.run("tune", "project").must().err
    assert "a block of 2048x1x1" in told
    assert "'BLOCK' is 0" in told
    space.unlink()
    assert "--init" in stages.run("tune", "project").must(2).err
    assert "is not a project" in stages.run("tune", "@capture").must(2).err


def test_the_first_file_holds_what_the_source_has(stages, project):
    (project / "tune.toml").unlink()
    stages.run("tune", "project", "--init").must()
    text = (project / "tune.toml").read_text()
    assert "TILE = [16, 8, 32]" in text
    assert "UNROLL = [1, 2]" in text
    assert "exists" in stages.run("tune", "project", "--init").must(2).err
    assert "TILE=16 UNROLL=1" in stages.run("tune", "project", "--trials", 1).must().err


@pytest.mark.usefixtures("project")
def test_time_is_up(stages):
    done = stages.run("tune", "project", "--max-time", 0.01).must(1)
    assert "none is right" in done.err


@pytest.mark.usefixtures("project")
def test_a_terminal_shows_the_best_so_far(stages):
    shown = stages.shown("tune", "project", "--trials", 4, "--sampler", "grid")
    assert "TILE=16 UNROLL=1" in shown
    assert "Best of 4 configurations" in shown
