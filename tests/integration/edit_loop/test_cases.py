"""Captures of one kernel in several launch shapes are one project, and a variant is judged for each."""

from __future__ import annotations

import json

from made_in_projects import make
from programs import SOURCES, Build, Program, compile_once


def test_a_variant_that_is_right_for_some_cases_only(stages):
    app = compile_once(Build(Program(SOURCES / "edit_loop/three_sizes.hip"), "gfx90a", "O3"))
    (profile,) = stages.run("profile", "--", app).must().digests
    captures = stages.run("capture", profile, "--cases", 3).must().digests
    assert len(captures) == 3
    made = stages.run(
        "generate", *captures, "--source-dir", SOURCES / "edit_loop", "--output", "project"
    ).must()
    assert len(made.digests) == 1
    project = stages.folder / "project"
    assert "| also | " in (project / "README.md").read_text()
    edited = project / "kernel_variant.cpp"
    unedited = edited.read_text()
    edited.write_text(unedited.replace("0.5f;", "0.50000006f;"))  # rounds otherwise
    assert make(stages, project, "recompile").returncode == 0
    right = stages.run("validate", "project", "--tolerance", "1e-2").must()
    assert "Cases: right for all 3" in right.err
    assert "`--held-out CAPTURE` adds one" in right.err
    assert "Fixed:" not in right.err
    words = ("replay", "project", "--compare", project / "optimized.hsaco", "--json")
    compared = stages.run(*words, "--iterations", 2).must()
    replays = [json.loads(line) for line in compared.out.splitlines()]
    after = sum(each["timing"]["instructions"] for each in replays)  # each shape was launched once
    before = sum(each["comparison"]["baseline"]["instructions"] for each in replays)
    (average,) = (line for line in compared.err.splitlines() if "over all cases" in line)
    assert average == (
        "wave instructions, variant / baseline over all cases, weighted by their calls in the profile: "
        f"{after / before:.3f} (not a ratio of times)"
    )
    words = ("validate", "project", "--baseline", "--quick", "--expect-capture", captures[0])
    refused = stages.run(*words).must(6).err
    assert f"add --expect-capture {captures[1]} --expect-capture {captures[2]}; else" in refused
    stages.run(*words, "--expect-capture", captures[1], "--expect-capture", captures[2]).must()
    # As if the grid of the largest case had been read off the others.
    edited.write_text(unedited.replace("if (i < count)", "if (i < count && blockIdx.x < 8)"))
    assert make(stages, project, "recompile").returncode == 0
    wrong = stages.run("validate", "project").must(1)
    _, _, said = wrong.err.partition("Cases: right for 2 of 3, wrong for:\n")
    told, _, specialised = said.partition(
        "  it is right for these, and may be specialised to their sizes or values:\n"
    )
    assert told == "  20 x 1 x 1 work-groups of 256 x 1 x 1\n"
    assert specialised.count("work-groups of 256 x 1 x 1\n") == 2
    assert "  20 x 1" not in specialised
    assert wrong.err.count("Result: PASS") == 2


def test_a_case_that_is_held_out_is_not_in_the_project(stages):
    app = compile_once(Build(Program(SOURCES / "edit_loop/three_sizes.hip"), "gfx90a", "O3"))
    *shown, hidden = stages.run("capture", "--kernel", "halve", "--cases", 3, "--", app).must().digests
    words = ("--source-dir", SOURCES / "edit_loop", "--output", "project")
    (made,) = stages.run("generate", *shown, hidden, "--held-out", hidden, *words).must().digests
    assert [kernel["capture"] for kernel in stages.show(made)["kernels"]] == [
        f"manifest:{each}" for each in shown
    ]
    project = stages.folder / "project"
    assert not list((project / "capture/store").rglob(f"*{hidden[2:]}*"))
    # An earlier project in the folder had it, and so has a verdict on what is still shown.
    older = stages.folder / "older"
    stages.run("generate", *shown, hidden, *words[:-1], older).must()
    stages.run("validate", older, "--baseline").must()
    assert list((older / "capture/store").rglob(f"*{hidden[2:]}*"))
    for run in range(2):
        again = ("generate", *shown, hidden, "--held-out", hidden, *words[:-1], older, "--force")
        before = {each.name for each in (older / "capture/store/artifacts").iterdir()}
        told = stages.run(*again).must().err
        gone = before - {each.name for each in (older / "capture/store/artifacts").iterdir()}
        assert {hidden} <= gone if run == 0 else not gone
        assert (f"removed {len(gone)} artifacts of held-out captures" in told) == (run == 0), told
        for file in (older / "capture").rglob("*"):
            assert hidden[2:] not in file.name
            assert not file.is_file() or hidden.encode() not in file.read_bytes()
    stages.run("validate", older, "--baseline").must()
    edited = project / "kernel_variant.cpp"
    edited.write_text(edited.read_text().replace("if (i < count)", "if (i < count && blockIdx.x < 8)"))
    assert make(stages, project, "recompile").returncode == 0
    assert "Cases: right for all 2" in stages.run("validate", "project").must().err
    timed = make(stages, project, "bench", f"REPLAY_FLAGS=--held-out {hidden} -n 2")
    assert timed.returncode == 2, timed.stderr  # as make fails
    titles = [line for line in timed.stderr.splitlines() if line.startswith("halve, ")]
    assert titles[2] == "halve, 20 x 1 x 1 work-groups of 256 x 1 x 1 (held out):"
    assert [" (held out)" in title for title in titles] == [False, False, True]
    assert timed.stderr.partition(titles[2])[2].startswith("\nwrong in 2 of 2 timed runs")
    nothing = stages.run("generate", *shown, "--held-out", hidden, *words).must(2)
    assert "is none of the given captures" in nothing.err
    for stage, *more in (("validate",), ("replay",), ("evaluate", project / "optimized.hsaco")):
        for held_out, why in ((shown[0], "which the project holds"), (hidden, "which is given twice")):
            words = ("project", *more, "--held-out", hidden, "--held-out", held_out)
            assert why in stages.run(stage, *words).must(2).err
    caught = stages.run("validate", "project", "--held-out", hidden).must(1)
    assert (
        "Cases: right for 2 of 3, wrong for:\n  20 x 1 x 1 work-groups of 256 x 1 x 1 (held out)\n"
        in caught.err
    )
    assert caught.err.count("(held out)") == 2  # above its verdict, and in the list


def test_cases_with_one_launch_shape_are_told_apart_by_their_scalars(stages):
    """A variant with a scalar built in is wrong where the scalar is another one."""
    app = compile_once(Build(Program(SOURCES / "edit_loop/other_scalars.hip"), "gfx90a", "O3"))
    shown, hidden = stages.run("capture", "--kernel", "scale", "--count", 2, "--", app).must().digests
    words = ("--together", "--source-dir", SOURCES / "edit_loop", "--output", "project")
    stages.run("generate", shown, hidden, "--held-out", hidden, *words).must()
    project = stages.folder / "project"
    edited = project / "kernel_variant.cpp"
    edited.write_text(edited.read_text().replace("* factor", "* 3"))
    assert make(stages, project, "recompile").returncode == 0
    stages.run("validate", "project").must()
    wrong = stages.run("validate", "project", "--held-out", hidden).must(1).err
    assert (
        "Cases: right for 1 of 2, wrong for:\n"
        "  1 x 1 x 1 work-groups of 64 x 1 x 1, argument 1 = 5 (held out)\n"
        "  it is right for these, and may be specialised to their sizes or values:\n"
        "  1 x 1 x 1 work-groups of 64 x 1 x 1, argument 1 = 3\n"
    ) in wrong
    # Twice the same launch with the same scalars: only the captures differ.
    again = stages.run("capture", "--kernel", "scale", "--", app).must().digests[0]
    stages.run("generate", shown, again, *words[:-1], "twice").must()
    same = stages.run("validate", "twice", "--baseline", "--quick").must().err
    assert f"work-groups of 64 x 1 x 1, capture {again[:12]}:" in same
