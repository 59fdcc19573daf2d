"""A verdict names its options, the project, and the sources of the variant as they were at the build."""

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
