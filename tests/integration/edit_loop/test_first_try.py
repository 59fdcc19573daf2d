"""The chain that users type first: kc-profile -- ./app | kc-capture | kc-generate, without kc-locate."""

from __future__ import annotations

import shutil

import pytest
from programs import SOURCES

SOURCE = SOURCES / "edit_loop/first_try.hip"


@pytest.fixture
def captured(stages, program, tmp_path):
    """A capture of a program that lies beside its source; all stages run elsewhere."""
    (tmp_path / "app").mkdir()
    shutil.copy2(SOURCE, tmp_path / "app")
    app = shutil.copy2(program("first_try"), tmp_path / "app/first_try")
    (tmp_path / "elsewhere").mkdir()
    stages.folder = tmp_path / "elsewhere"
    (capture,) = stages.capture("scale", app)
    return capture


def test_the_source_beside_the_program_is_what_the_project_edits(stages, captured, tmp_path):
    done = stages.run("generate", "--output", "project", stdin=f"{captured}\n").must()
    assert str(tmp_path / "app/first_try.hip") in done.err
    project = stages.folder / "project"
    assert "void scale(float* data" in (project / "kernel_variant.cpp").read_text()
    made = stages.show(done.digests[0])
    assert made["can_recompile"]
    assert stages.show(made["parents"][0].removeprefix("manifest:"))["kind"] == "source"


def test_instructions_are_edited_where_they_are_asked_for(stages, captured):
    done = stages.run("generate", captured, "--assembly", "--output", "project").must()
    assert (stages.folder / "project/kernel_variant.s").is_file()
    assert not (stages.folder / "project/kernel_variant.cpp").exists()
    assert stages.show(done.digests[0])["parents"] == [f"manifest:{captured}"]


def test_another_place_is_looked_into_where_it_is_named(stages, captured, tmp_path):
    (tmp_path / "empty").mkdir()
    done = stages.run("generate", captured, "--source-dir", tmp_path / "empty", "--output", "project").must()
    assert "not_found" in done.err
    assert (stages.folder / "project/kernel_variant.s").is_file()
    stages.run("generate", captured, "--source-dir", tmp_path / "absent").must(2)
    stages.run("generate", "@source", "--source-dir", tmp_path / "app").must(2)
    stages.run("generate", captured, "--assembly", "--source-dir", tmp_path / "app").must(2)
