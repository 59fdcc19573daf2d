"""Kernels of one translation unit in one project, and what is made again when something changes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from programs import COMMON_FLAGS, SOURCES, Build, Program, compile_once

from kerncap_stages import Kerncap
from kerncap_stages.store import Store

OUTPUTS = SOURCES / "edit_loop/typed_outputs.hip"


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    folder.mkdir()
    shutil.copy(OUTPUTS, folder / "outputs.hip")
    (folder / "unrelated.hip").write_text("__global__ void unrelated() {}\n")
    words = ["hipcc", "-O3", *COMMON_FLAGS, "--offload-arch=gfx90a", "-c", "outputs.hip"]
    entry = {"directory": str(folder), "file": "outputs.hip", "arguments": words}
    (folder / "compile_commands.json").write_text(json.dumps([entry]))
    return folder


@pytest.fixture
def app():
    return compile_once(Build(Program(OUTPUTS), "gfx90a", "O3"))


def make(project: Path, target: str) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["make", "-C", project, target],
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def stages_show(project: Path, digest: str) -> dict[str, object]:
    store = Store.open(project / "capture/store", create=False)
    return json.loads(store.get(store.resolve(digest)))


def located(stages, tree, app, *kernels):
    digests = [digest for kernel in kernels for digest in stages.capture(kernel, app)]
    return [stages.run("locate", digest, "--source-dir", tree).must().digests[0] for digest in digests]


def test_one_project_rebuilds_and_judges_all_of_them(stages, tree, app):
    sources = located(stages, tree, app, "by_symbol", "accumulate")
    made = stages.run("generate", *sources, "--together", "--output", "project").must()
    assert len(made.digests) == 1
    project = stages.folder / "project"
    assert [kernel["name"].split("(")[0] for kernel in stages.show(made.digests[0])["kernels"]] == [
        "outputs::by_symbol",
        "accumulate",
    ]
    second = json.loads((project / "capture/kernel-2/dispatch.json").read_text())
    assert second["demangled_name"].startswith("accumulate(")
    make(project, "recompile")
    done = stages.run("validate", "project").must()
    assert len(done.digests) == 2
    printed = make(project, "run-variant")
    replayed = re.findall(r"^[0-9a-f]{64}$", printed, re.MULTILINE)
    assert [stages_show(project, digest)["matches_golden"] for digest in replayed] == [True, True]
    assert re.findall(r"^(\S+?)\(.*\):$", printed, re.MULTILINE) == ["outputs::by_symbol", "accumulate"]
    edited = project / "kernel_variant.cpp"
    edited.write_text(edited.read_text().replace("total[i] += in[i]", "total[i] -= in[i]"))
    make(project, "recompile")
    done = stages.run("validate", "project", "--json").must(1)
    assert [json.loads(line)["passed"] for line in done.out.splitlines()] == [True, False]
    blocks = re.findall(r"^(\S+?)\(.*\):$|(Result: \w+)", done.err, re.MULTILINE)
    assert [name or result for name, result in blocks] == [
        *("outputs::by_symbol", "Result: PASS", "accumulate", "Result: FAIL")
    ]
    result = Kerncap(stages.store).validate(project)
    counts = f"{result.regions_identical} of {result.regions_total} regions identical, 1 differ"
    assert counts in result.result_line
    assert result.regions_total > 2
    assert any(line.startswith("accumulate(") for line in result.details)


def test_kernels_of_different_code_objects_are_not_put_together(stages, tree, app, program):
    (source,) = located(stages, tree, app, "accumulate")
    (other,) = stages.capture("add", program("vector_add"))
    assert "one translation unit" in stages.run("generate", source, other, "--together").must(2).err


def test_a_change_remakes_what_depends_on_it_and_nothing_else(stages, tree, app):
    (capture,) = stages.capture("accumulate", app)
    locate = ("locate", capture, "--source-dir", tree)
    source = stages.run(*locate).must().digests[0]
    project = stages.run("generate", source, "--output", "project").must().digests[0]
    assert stages.run(*locate).must().digests[0] == source
    assert stages.run("generate", source, "--output", "project").must().digests[0] == project
    # Another file of the tree: the search runs again, and what comes of it is the same project.
    (tree / "unrelated.hip").write_text("__global__ void other() {}\n")
    again = stages.run(*locate).must().digests[0]
    assert again != source
    assert stages.run("generate", again, "--output", "project").must().digests[0] == project
    edited = stages.folder / "project/kernel_variant.cpp"
    mine = edited.read_text() + "// mine\n"
    edited.write_text(mine)
    # The file itself: everything is made again, and the edit stays.
    (tree / "outputs.hip").write_text((tree / "outputs.hip").read_text() + "// theirs\n")
    changed = stages.run(*locate).must().digests[0]
    done = stages.run("generate", changed, "--output", "project").must()
    assert done.digests[0] != project
    assert "kept your edit of kernel_variant.cpp" in done.err
    assert edited.read_text() == mine
