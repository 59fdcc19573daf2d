"""Which captures become which project, and what a project with more captures is not overwritten by."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import executables
import pytest
from made_up import device_code, publish

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.digest import Digest

pytestmark = pytest.mark.skipif(shutil.which("hipcc") is None, reason="needs hipcc: run it in the ROCm root")


@pytest.fixture
def captures(store, tree: Path, tmp_path: Path) -> list[Digest]:
    """Three captures of one kernel, of three runs."""
    (tree / "k.hip").write_text(
        "#include <hip/hip_runtime.h>\n__global__ void scale(float* x) { x[threadIdx.x] *= 2.5f; }\n"
    )
    code = device_code(tree / "k.hip", tmp_path / "code.hsaco")
    return [publish(store, code, "_Z5scalePf", f"/run{i}") for i in range(3)]


def generate(store, *words: object, **options):
    return executables.run("kc-generate", *words, store=store.root, cwd=store.root.parent, **options)


def read_captures(project: Path) -> list[str]:
    return json.loads((project / "capture/project.json").read_text())["captures"]


def test_captures_of_one_kernel_in_several_projects_are_pointed_at_together(store, captures, tree, tmp_path):
    words = (*captures, "-s", tree, "-o", "project")
    done = generate(store, *words)
    assert (done.returncode, len(done.stdout.split())) == (0, 3), done.stderr
    assert "3 projects of one kernel, scale(float*): --together makes one project of them" in done.stderr
    done = generate(store, *words[:-1], "one", "--together")
    assert (done.returncode, len(done.stdout.split())) == (0, 1), done.stderr
    assert "--together" not in done.stderr
    assert read_captures(tmp_path / "one") == captures


def test_a_capture_that_is_given_twice_is_taken_once(store, captures, tree, tmp_path):
    (source,) = executables.run(
        "kc-locate", captures[0], "-s", tree, store=store.root
    ).stdout.split()  # of the same capture
    done = generate(store, "-o", "project", piped=f"{source}\n{captures[0]}\n{source}\n")
    assert (done.returncode, len(done.stdout.split())) == (0, 1), done.stderr
    assert done.stderr.count(f"{captures[0].short} is given twice, and taken once") == 2
    assert not (tmp_path / "project-2").exists()


def test_a_project_with_more_captures_is_overwritten_only_by_force(store, captures, tree, tmp_path):
    words = ("-s", tree, "-o", "project", "--together")
    assert generate(store, *captures, *words).returncode == 0
    project = tmp_path / "project"
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    done = generate(store, captures[1], "-s", tree, "-o", "project")
    assert (done.returncode, done.stdout) == (2, "")
    had = ", ".join(each.short for each in captures)
    assert f"project has a project of 3 captures ({had})" in done.stderr
    assert f"the new one has only 1 capture ({captures[1].short})" in done.stderr
    assert "--force" in done.stderr
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before
    done = executables.run(
        "kc-extract", "-o", project, "--", "touch", tmp_path / "ran", store=store.root, cwd=tmp_path
    )
    assert done.returncode == 2
    assert "has a project of 3 captures" in done.stderr
    assert not (tmp_path / "ran").exists()
    done = generate(store, captures[1], "-s", tree, "-o", "project", "--force")
    assert done.returncode == 0, done.stderr
    assert read_captures(project) == [captures[1]]
    # As many captures may be replaced, and more may be added.
    assert generate(store, captures[0], "-s", tree, "-o", "project").returncode == 0
    assert generate(store, *captures, *words).returncode == 0
    assert read_captures(project) == captures


def test_a_source_that_was_removed_is_named_with_its_stored_copy(store, captures, tree, tmp_path):
    def locate() -> object:
        return executables.run("kc-locate", captures[0], "-s", tree, store=store.root)

    source = locate().stdout.strip()
    (tree / "k.hip").unlink()
    assert f"it was in {tree}/k.hip, which was removed; {source[:12]} has a copy" in locate().stderr
    done = generate(store, captures[1], "-s", tree, "-o", "project")  # of the same code
    assert (done.returncode, done.stdout) == (3, "")
    assert f"was in {tree}/k.hip, which has been removed" in done.stderr
    assert f"`kc-generate {source[:12]}`" in done.stderr
    assert not (tmp_path / "project").exists()
    done = generate(store, source[:12], "-o", "project")
    assert done.returncode == 0, done.stderr
    assert "2.5f" in (tmp_path / "project/kernel_variant.cpp").read_text()


def test_a_capture_to_hold_out_that_is_not_given_is_refused(store, captures, tree, tmp_path):
    first, second, third = captures
    done = generate(store, first, second, "--held-out", third, "-s", tree, "-o", "project", "--together")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--held-out {third} is none of the given captures: {first.short}, {second.short}\n" in done.stderr
    assert not (tmp_path / "project").exists()


def test_a_project_of_another_kernel_that_is_replaced_is_named(store, captures, tree, tmp_path):
    (tree / "grow.hip").write_text(
        "#include <hip/hip_runtime.h>\n__global__ void grow(float* x) { x[threadIdx.x] += 2.5f; }\n"
    )
    other = publish(store, device_code(tree / "grow.hip", tmp_path / "grow.hsaco"), "_Z4growPf")
    assert "replaced" not in generate(store, captures[0], "-s", tree, "-o", "project").stderr
    done = generate(store, other, "-s", tree, "-o", "project")
    assert done.returncode == 0, done.stderr
    assert "replaced the project of scale(float*)" in done.stderr


def test_captures_are_added_to_a_project_that_was_edited(store, captures, tree, tmp_path):
    assert generate(store, captures[0], "-s", tree, "-o", "project").returncode == 0
    edited = tmp_path / "project/kernel_variant.cpp"
    edited.write_text(edited.read_text().replace("2.5f", "3.5f"))
    (tmp_path / "project/optimized.hsaco").write_bytes(b"built")
    done = generate(store, *captures, "-s", tree, "-o", "project", "--together")
    assert done.returncode == 0, done.stderr
    assert "kept your edit of kernel_variant.cpp" in done.stderr
    assert "3.5f" in edited.read_text()
    assert (tmp_path / "project/optimized.hsaco").read_bytes() == b"built"
    assert read_captures(tmp_path / "project") == captures
