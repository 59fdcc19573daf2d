"""A project that was moved: to another folder, and into another root file system with another ROCm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from programs import COMMON_FLAGS, SOURCES, Build, Program, compile_once, compiler_version, in_rocm
from softgpu import refusal

from kerncap_stages.code_object import read_code_object

DEMO = SOURCES / "edit_loop/typed_outputs.hip"


@pytest.fixture
def project(stages, tmp_path):
    """A project far from where it was made, with everything that it was made from gone."""
    tree = tmp_path / "tree"
    tree.mkdir()
    shutil.copy(DEMO, tree / "outputs.hip")
    words = ["hipcc", "-O3", *COMMON_FLAGS, "--offload-arch=gfx90a", "-c", "outputs.hip"]
    entry = {"directory": str(tree), "file": "outputs.hip", "arguments": words}
    (tree / "compile_commands.json").write_text(json.dumps([entry]))
    app = compile_once(Build(Program(DEMO), "gfx90a", "O3"))
    (capture,) = stages.capture("by_symbol", app)
    source = stages.run("locate", capture, "--source-dir", tree).must().digests[0]
    stages.run("generate", source, "--output", "project").must()
    moved = tmp_path / "some where else" / "it's here"
    moved.parent.mkdir()
    shutil.move(stages.folder / "project", moved)
    shutil.rmtree(tree)
    shutil.rmtree(stages.store)
    return moved


def test_it_is_rebuilt_replayed_and_judged_without_what_it_was_made_from(stages, project):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**stages.environment, "PATH": path, "HOME": str(project.parent)}
    for target in ("run", "validate", "recompile", "run-variant", "validate-variant"):
        done = subprocess.run(
            ["make", "-C", project, target], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "Result: PASS  (byte-exact" in done.stderr


def test_it_is_rebuilt_in_another_root_by_another_compiler(project):
    other = "6.4" if "HIP version: 7" in compiler_version("") else "7.2"
    reason = refusal(other)
    if reason:
        pytest.skip(reason)
    done = subprocess.run(
        [*in_rocm(other), "make", "-C", str(project), "recompile"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    facts = read_code_object((project / "optimized.hsaco").read_bytes())
    assert any("by_symbol" in symbol for symbol in facts.kernels)
