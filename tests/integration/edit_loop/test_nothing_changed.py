"""Stages with nothing to do return what they made before, with nothing heavy imported; else they work."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from programs import COMMON_FLAGS, SOURCES
from stages import Stages, executable

from kerncap_stages.store import Store
from kerncap_stages.store.check import check_store

TARGET = "gfx90a"
STAGES = ("locate", "generate", "validate")
HEAVY = {"jinja2", "numpy", "pydantic", "rich", "tree_sitter", "elftools", "msgpack"}


class Loop:
    """A capture, a tree of its source with headers, and what the three stages make of them."""

    def __init__(self, stages, capture: str, tree: Path) -> None:
        self.stages, self.capture, self.tree = stages, capture, tree

    def words(self, stage: str) -> list[str]:
        return {
            "locate": [self.capture, "--source-dir", str(self.tree / "src")],
            "generate": ["@source", "--output", "project"],
            "validate": ["project", "--quick"],
        }[stage]

    def __call__(self, stage: str) -> tuple[str, set[str]]:
        """What a stage prints, and which packages it imported."""
        return self.run(stage, *self.words(stage))

    def run(self, stage: str, *words: str) -> tuple[str, set[str]]:
        """The same with words of one's own."""
        command = [sys.executable, "-X", "importtime", *executable(stage), *words]
        done = subprocess.run(
            command, capture_output=True, text=True, env=self.stages.environment, cwd=self.stages.folder,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        told = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
        return done.stdout, {line.rpartition("|")[2].strip().partition(".")[0] for line in told}

    def works(self, stage: str) -> bool:
        """Whether a stage works, instead of returning what it made before."""
        return bool(self(stage)[1] & HEAVY)


@pytest.fixture(scope="module")
def worked(captured, tmp_path_factory) -> tuple[Loop, Path]:
    """A loop whose stages have worked, and a copy of the folder in which they did."""
    folder = tmp_path_factory.mktemp("worked") / "live"
    store, digest = captured("by_symbol", 0)
    shutil.copytree(store, folder / "store")
    stages = Stages(folder / "store", folder, TARGET)
    tree = folder / "tree"
    (tree / "src").mkdir(parents=True)
    (tree / "first").mkdir()
    (tree / "include").mkdir()
    text = (SOURCES / "edit_loop/typed_outputs.hip").read_text()
    (tree / "src/outputs.hip").write_text('#include "own.hpp"\n' + text)
    (tree / "include/own.hpp").write_text("// ours\n")
    words = ["hipcc", "-O3", f"-I{tree}/first", f"-I{tree}/include", *COMMON_FLAGS, "-c", "outputs.hip"]
    entry = {"directory": str(tree / "src"), "file": "outputs.hip", "arguments": words}
    (tree / "src/compile_commands.json").write_text(json.dumps([entry]))
    made = Loop(stages, digest, tree)
    for stage in STAGES:
        assert made.works(stage), stage
    return made, shutil.copytree(folder, folder.with_name("saved"), symlinks=True)


@pytest.fixture
def loop(worked) -> Loop:
    """The loop as its stages left it, in the same folder for each test: nothing has changed there."""
    made, saved = worked
    folder = made.stages.folder
    shutil.rmtree(folder)
    shutil.copytree(saved, folder, symlinks=True)
    again = Loop(Stages(made.stages.store, folder, TARGET), made.capture, made.tree)
    assert not any(again.works(stage) for stage in STAGES)
    return again


def test_nothing_changed_prints_the_same_and_imports_nothing_heavy(loop):
    for stage in STAGES:
        before, _ = loop(stage)
        again, imported = loop(stage)
        assert again == before
        assert imported & HEAVY == set(), stage
        assert "kerncap_stages" in imported


def test_a_capture_is_located_by_generate_once(loop):
    words = [loop.capture, "--source-dir", str(loop.tree / "src"), "--output", "project"]
    before, _ = loop.run("generate", *words)
    again, imported = loop.run("generate", *words)
    assert again == before == loop("generate")[0]  # what kc-locate found is what it finds
    assert imported & HEAVY == set()


def test_what_is_said_for_people_is_the_same(loop):
    for stage in STAGES:
        known = loop.stages.run(stage, *loop.words(stage)).must().err
        fresh = ["--fresh"] if stage != "generate" else ["--force"]
        worked = loop.stages.run(stage, *loop.words(stage), *fresh).must().err
        assert known == worked


def test_json_is_the_stored_manifest(loop):
    for stage in STAGES:
        digest = loop(stage)[0].strip()
        printed = loop.stages.run(stage, *loop.words(stage), "--json").must()
        stored = loop.stages.run("show", "--json", stdin=digest).must()
        assert printed.out == stored.out


def test_what_is_made_of_a_project_is_listed_in_both_stores(loop):
    verdict = loop("validate")[0].strip()
    for place in (loop.stages.store, loop.stages.folder / "project/capture/store"):
        assert Store.open(place).resolve("@validation") == verdict
    replay = loop.stages.run("replay", "project").must().out
    assert "replay" in loop.stages.run("show", stdin=replay).must().out
    # One that is moved to where no store is yet brings what its verdicts need.
    (loop.stages.folder / "project").rename(loop.stages.folder / "moved")
    new = {"KERNCAP_STORE": str(loop.stages.folder / "new")}
    again = loop.stages.run("validate", "moved", "--quick", **new).must()
    assert again.digests == [verdict]
    shutil.rmtree(loop.stages.folder / "moved")
    loop.stages.run("show", "--tree", stdin=again.out, **new).must()
    assert check_store(Store.open(loop.stages.folder / "new")).ok
    assert [entry.kind for entry in Store.open(loop.stages.folder / "new").list_artifacts()] == ["validation"]


def test_a_verdict_that_the_users_store_cannot_take_is_told_to_be_elsewhere(loop):
    (loop.stages.folder / "file").write_text("no store")
    done = loop.stages.run("validate", "project", "--quick", KERNCAP_STORE=str(loop.stages.folder / "file"))
    assert "is only in the project's store" in done.must().err


def test_a_changed_header_is_a_new_search_and_a_new_project(loop):
    before = loop("locate")[0]
    with (loop.tree / "include/own.hpp").open("a") as file:
        file.write("// more\n")
    assert loop.works("locate")
    assert loop("locate")[0] != before
    assert loop.works("generate")
    assert "// more" in next(loop.stages.folder.glob("project/deps/**/own.hpp")).read_text()
    assert loop.works("validate")  # types of arguments may come from that header
    assert not any(loop.works(stage) for stage in STAGES)


def test_a_header_that_was_looked_for_and_absent_is_a_new_search(loop):
    before = loop("locate")[0]
    (loop.tree / "first/own.hpp").write_text("// the first\n")
    assert loop.works("locate")
    assert loop("locate")[0] != before


def test_a_new_source_file_is_a_new_search_of_the_same_result(loop):
    (loop.tree / "src/more.hip").touch()
    assert loop.works("locate")
    assert not loop.works("generate")


def test_an_edit_of_the_users_is_kept_and_told_each_time(loop):
    variant = loop.stages.folder / "project/kernel_variant.cpp"
    variant.write_text("// mine\n")
    for _ in range(2):
        said = loop.stages.run("generate", *loop.words("generate")).must().err
        assert "kept your edit of kernel_variant.cpp" in said
        assert variant.read_text() == "// mine\n"
    loop.stages.run("generate", *loop.words("generate"), "--force").must()
    assert variant.read_text() != "// mine\n"


@pytest.mark.parametrize("missing", ["Makefile", "kernel_variant.cpp", "capture/dispatch.json"])
def test_a_missing_file_of_the_project_is_written_again(loop, missing):
    path = loop.stages.folder / "project" / missing
    before = path.read_bytes()
    path.unlink()
    loop.stages.run("generate", *loop.words("generate")).must()
    assert path.read_bytes() == before


def test_a_missing_store_of_the_project_is_made_again(loop):
    shutil.rmtree(loop.stages.folder / "project/capture/store")
    loop.stages.run("generate", *loop.words("generate")).must()
    loop.stages.run("validate", *loop.words("validate")).must()


def test_an_artifact_that_was_removed_is_made_again(loop):
    loop.stages.run("store", "rm", "@source").must()
    assert loop.works("locate")
    loop.stages.run("store", "rm", "@reproducer").must()
    assert loop.works("generate")
    loop.stages.run("store", "rm", "@validation", KERNCAP_STORE="project/capture/store").must()
    assert loop.works("validate")


def test_another_variant_or_another_machine_is_another_verdict(loop, variant):
    shutil.copy(variant("right"), loop.stages.folder / "project/optimized.hsaco")
    assert loop.works("validate")
    assert not loop.works("validate")
    shutil.copy(variant("faster"), loop.stages.folder / "project/optimized.hsaco")
    assert loop.works("validate")
    loop.stages.variables["HSA_XNACK"] = "0"
    assert loop.works("validate")


def test_another_version_of_the_package_makes_it_again(loop, tmp_path):
    """A copy of the package that says it is another version has other keys."""
    import kerncap_stages

    copy = tmp_path / "newer/kerncap_stages"
    shutil.copytree(Path(kerncap_stages.__file__).parent, copy)
    text = (copy / "__init__.py").read_text()
    assert f'__version__ = "{kerncap_stages.__version__}"' in text
    (copy / "__init__.py").write_text(text.replace(kerncap_stages.__version__, "9.9.9"))
    loop.stages.variables["PYTHONPATH"] = os.pathsep.join([str(copy.parent)])
    for stage in STAGES:
        assert loop.works(stage)


def test_fresh_works_again_and_keeps_edits(loop):
    edited = loop.stages.folder / "project/kernel_variant.cpp"
    edited.write_text("// mine\n")
    done = loop.stages.run("generate", *loop.words("generate"), "--fresh").must()
    assert "kept your edit of kernel_variant.cpp" in done.err
    assert edited.read_text() == "// mine\n"
