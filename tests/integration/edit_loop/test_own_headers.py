"""Headers of the user's own, beside the file that is edited."""

from __future__ import annotations

import pytest
from made_in_projects import make
from programs import SOURCES, Build, Program, compile_once


@pytest.mark.parametrize("level", ["O0", "O3"])
def test_an_own_header_beside_the_edited_file_is_found_and_watched(stages, level):
    app = compile_once(Build(Program(SOURCES / "edit_loop/three_sizes.hip"), "gfx90a", level))
    (capture,) = stages.capture("halve", app)
    stages.run("generate", capture, "--source-dir", SOURCES / "edit_loop", "--output", "project").must()
    project = stages.folder / "project"
    edited, own = project / "kernel_variant.cpp", project / "own.hpp"
    own.write_text("#define FACTOR 0.5f\n")
    edited.write_text('#include "own.hpp"\n' + edited.read_text().replace("0.5f;", "FACTOR;"))
    assert make(stages, project, "recompile").returncode == 0
    stages.run("validate", "project", "--quick").must()
    own.write_text("#define FACTOR 0.25f\n")
    assert "own.hpp was edited after" in stages.run("validate", "project", "--quick").must(6).err
    assert make(stages, project, "recompile").returncode == 0
    stages.run("validate", "project", "--quick").must(1)
    # Variants that are made of the project find it, too.
    for factor, outcome in (("0.5f", "right"), ("0.25f", "wrong")):
        own.write_text(f"#define FACTOR {factor}\n")
        done = stages.run("evaluate", "project", edited, "--quick", "--runs", 1, "--json")
        assert [each["outcome"] for each in done.manifest["variants"]] == [outcome]
