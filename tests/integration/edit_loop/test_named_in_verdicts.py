"""A verdict names its options, its project and its sources, and is on no code object that is older."""

from __future__ import annotations

import hashlib

from made_in_projects import make
from programs import SOURCES, Build, Program, compile_once


def test_a_verdict_names_options_project_and_sources(stages):
    app = compile_once(Build(Program(SOURCES / "edit_loop/three_sizes.hip"), "gfx90a", "O3"))
    (capture,) = stages.capture("halve", app)
    words = ("--source-dir", SOURCES / "edit_loop", "--output", "project")
    (reproducer,) = stages.run("generate", capture, *words).must().digests
    project = stages.folder / "project"
    edited = project / "kernel_variant.cpp"
    texts = [edited.read_text(), edited.read_text() + "// the same instructions\n"]
    verdicts = []
    for text in texts:
        edited.write_text(text)
        assert make(stages, project, "recompile").returncode == 0
        (digest,) = stages.run("validate", "project", "--quick", "--rtol", 1e-3).must().digests
        assert stages.run("validate", "project", "--quick", "--rtol", 1e-3).must().digests == [digest]
        verdicts.append(stages.show(digest))
    for text, made in zip(texts, verdicts, strict=True):
        assert made["reproducer"] == f"manifest:{reproducer}"
        assert made["options"]["perturb"] is False
        assert made["options"]["bounds"] == {"atol": None, "rtol": 1e-3, "ulp": None}
        sources = {each["path"]: each["digest"] for each in made["built_from"]}
        assert sources["kernel_variant.cpp"] == hashlib.sha256(text.encode()).hexdigest()
        assert "compile_flags.rsp" in sources
    # Nothing but the sources' names is another: the second one was not judged again.
    first, second = ({**made, "built_from": None} for made in verdicts)
    assert first == second
    shown = stages.run("show", "@validation").must().out
    assert "--rtol 0.001 --timeout 300 --quick" in shown
    assert hashlib.sha256(texts[1].encode()).hexdigest()[:12] in shown
    # The same file as a variant of the capture is of no project.
    (alone,) = (
        stages.run("validate", capture, "--variant", project / "optimized.hsaco", "--quick", "--rtol", 1e-3)
        .must()
        .digests
    )
    assert (stages.show(alone)["reproducer"], "built_from" in stages.show(alone)) == (None, False)


def test_a_variant_that_is_older_than_its_sources_is_refused(stages):
    app = compile_once(Build(Program(SOURCES / "edit_loop/three_sizes.hip"), "gfx90a", "O3"))
    (capture,) = stages.capture("halve", app)
    stages.run("generate", capture, "--source-dir", SOURCES / "edit_loop", "--output", "project").must()
    project = stages.folder / "project"
    assert make(stages, project, "recompile").returncode == 0
    validate = ("validate", "project", "--quick")
    run = ("run", "--variant", "project", "--", app)
    evaluate = ("evaluate", "project", "project", "--quick", "--runs", 1)
    edited = project / "kernel_variant.cpp"
    edited.touch()
    for words in (validate, run):
        assert "was edited" not in stages.run(*words).must().err
    edited.write_text(edited.read_text().replace("0.5f;", "0.25f;"))
    for words in (validate, run):
        refused = stages.run(*words).must(6)
        assert "kernel_variant.cpp was edited after project/optimized.hsaco was built" in refused.err
        assert "`make -C project recompile`" in refused.err
        assert "Result" not in refused.err
        assert refused.out == ""
    outcomes = {
        each["name"]: each["outcome"] for each in stages.run(*evaluate, "--json").must(1).manifest["variants"]
    }
    assert outcomes["project/kernel_variant.cpp"] == "wrong"
    assert outcomes["project/optimized.hsaco"] == "refused"
    # It can be judged as it is.
    named = stages.run(*validate, "--variant", "project/optimized.hsaco").must()
    assert "note: kernel_variant.cpp was edited after" in named.err
    # So is an edit of the flags, which make reads, too.
    assert make(stages, project, "recompile").returncode == 0
    stages.run(*validate).must(1)
    flags = project / "compile_flags.rsp"
    flags.write_text(flags.read_text() + "\n")
    assert "compile_flags.rsp was edited after" in stages.run(*validate).must(6).err
