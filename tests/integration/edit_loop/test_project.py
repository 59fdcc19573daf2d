"""From a captured kernel to a project that rebuilds it: the real compiler, a made-up snapshot."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from demo_tree import ADD_ROWS, located
from made_up import device_code, make, publish, text_section

from kerncap_stages.errors import UsageError
from kerncap_stages.generate.engine import run_generate
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options
from kerncap_stages.project import checkout
from kerncap_stages.project.checkout import check_out
from kerncap_stages.project.folder import open_project
from kerncap_stages.project.variants import find_built_variant
from kerncap_stages.store import Store
from kerncap_stages.store.check import check_store

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("hipcc") is None, reason="needs hipcc: run it in the ROCm root")


def test_the_unchanged_source_rebuilds_to_the_same_instructions(store, demo_tree, tmp_path):
    digest, _ = located(store, demo_tree)
    made, reproducer = run_generate(store, digest)
    project = tmp_path / "project"
    check_out(store, made, reproducer, project, force=False)
    assert make(project, "recompile").returncode == 0
    assert text_section((project / "optimized.hsaco").read_bytes()) == text_section(demo_tree[1])
    again = make(project, "recompile")
    assert "Nothing to be done" in again.stdout


def test_the_project_works_elsewhere_without_the_original_tree(store, demo_tree, tmp_path):
    digest, _ = located(store, demo_tree)
    made, reproducer = run_generate(store, digest)
    project = tmp_path / "project"
    check_out(store, made, reproducer, project, force=False)
    moved = tmp_path / "moved to" / "there"
    moved.parent.mkdir()
    project.rename(moved)
    hidden = demo_tree[0].with_name("hidden")
    demo_tree[0].rename(hidden)
    try:
        result = make(moved, "recompile")
    finally:
        hidden.rename(demo_tree[0])
    assert result.returncode == 0, result.stderr
    assert text_section((moved / "optimized.hsaco").read_bytes()) == text_section(demo_tree[1])
    assert open_project(moved).captures == (reproducer.kernels[0].capture.digest,)
    assert check_store(Store.open(moved / "capture/store", create=False)).ok


def test_an_edit_rebuilds_and_errors_point_at_the_edited_file(store, demo_tree, tmp_path):
    digest, _ = located(store, demo_tree)
    made, reproducer = run_generate(store, digest)
    project = tmp_path / "project"
    check_out(store, made, reproducer, project, force=False)
    assert make(project, "recompile").returncode == 0
    variant = project / "kernel_variant.cpp"
    variant.write_text(variant.read_text().replace("+=", "-="))
    assert make(project, "recompile").returncode == 0
    assert text_section((project / "optimized.hsaco").read_bytes()) != text_section(demo_tree[1])
    header = next(project.glob("deps/**/shape.hpp"))
    header.write_text(header.read_text().replace("int rows", "int rows; int broken ="))
    failed = make(project, "recompile")
    assert failed.returncode != 0
    assert "shape.hpp" in failed.stderr
    assert not (project / "optimized.hsaco").exists()


def test_generating_again_keeps_an_edit_unless_forced(store, demo_tree, tmp_path):
    digest, _ = located(store, demo_tree)
    made, reproducer = run_generate(store, digest)
    project = tmp_path / "project"
    check_out(store, made, reproducer, project, force=False)
    variant = project / "kernel_variant.cpp"
    variant.write_text("// mine\n")
    assert check_out(store, made, reproducer, project, force=False).kept == ("kernel_variant.cpp",)
    assert variant.read_text() == "// mine\n"
    assert check_out(store, made, reproducer, project, force=True).kept == ()
    assert variant.read_bytes() == (demo_tree[0] / "src/matvec.hip").read_bytes()


def test_an_edit_of_another_kernel_is_refused_before_anything_is_written(store, demo_tree, tmp_path):
    made, reproducer = run_generate(store, located(store, demo_tree)[0])
    project = tmp_path / "project"
    check_out(store, made, reproducer, project, force=False)
    (project / "kernel_variant.cpp").write_text("// mine\n")
    for name in ("optimized.hsaco", "candidate.hsaco"):
        (project / name).write_bytes(b"of the first kernel")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/k.hip").write_text("__global__ void other(int* x) { *x = 1; }\n")
    capture = publish(store, demo_tree[1], "_Z5otherPi")
    digest, _ = run_locate(store, capture, Options((tmp_path / "other",), compiler="hipcc"))
    other, another = run_generate(store, digest)
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match=r"holds edits of demo::add_rows.*: kernel_variant\.cpp"):
        check_out(store, other, another, project, force=False)
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before
    done = check_out(store, other, another, project, force=True)
    assert done.kept == ()
    assert "other" in (project / "kernel_variant.cpp").read_text()
    # What was built of the first kernel's sources is no variant of this one.
    assert find_built_variant(project) is None
    assert sorted(done.set_aside) == ["candidate.hsaco", "optimized.hsaco"]
    assert (project / "optimized.hsaco.old").read_bytes() == b"of the first kernel"


@pytest.mark.parametrize("written", [0, 1, 5])
def test_a_check_out_that_was_killed_is_finished_by_the_next(
    store, demo_tree, tmp_path, monkeypatch, written
):
    made, reproducer = run_generate(store, located(store, demo_tree)[0])
    whole = checkout.check_out(store, made, reproducer, tmp_path / "whole", force=False).folder
    write, left = checkout.write_file, iter(range(written + 1))

    def killed(folder, name, content, **more):
        if next(left, None) is None:
            raise KeyboardInterrupt
        write(folder, name, content, **more)

    monkeypatch.setattr(checkout, "write_file", killed)
    with pytest.raises(KeyboardInterrupt):
        check_out(store, made, reproducer, tmp_path / "project", force=False)
    monkeypatch.undo()
    assert check_out(store, made, reproducer, tmp_path / "project", force=False).kept == ()
    assert files_of(tmp_path / "project") == files_of(whole)


def test_several_at_once_make_one_whole_project(store, demo_tree, tmp_path):
    made, reproducer = run_generate(store, located(store, demo_tree)[0])
    with ThreadPoolExecutor(4) as pool:
        jobs = [
            pool.submit(check_out, store, made, reproducer, tmp_path / "project", force=False)
            for _ in range(4)
        ]
        assert [job.result().kept for job in jobs] == [()] * 4
    check_out(store, made, reproducer, tmp_path / "alone", force=False)
    assert files_of(tmp_path / "project") == files_of(tmp_path / "alone")


def files_of(project: Path) -> dict[str, bytes]:
    found = {path.relative_to(project): path for path in project.rglob("*") if path.is_file()}
    return {str(name): path.read_bytes() for name, path in found.items() if "store" not in name.parts}


def test_a_header_that_is_reached_through_a_link_is_edited_where_it_is_read(store, tmp_path):
    real, root = tmp_path / "real", tmp_path / "root"
    real.mkdir()
    root.mkdir()
    (real / "k.hpp").write_text("__global__ void k(int* x) { *x = 1; }\n")
    (root / "parts").symlink_to(real, target_is_directory=True)
    (root / "k.hip").write_text('#include <hip/hip_runtime.h>\n#include "parts/k.hpp"\n')
    entry = {"directory": str(root), "file": "k.hip", "arguments": ["hipcc", "-O3", "-c", "k.hip"]}
    (root / "compile_commands.json").write_text(json.dumps([entry]))
    code = device_code(root / "k.hip", tmp_path / "k.hsaco")
    digest, source = run_locate(store, publish(store, code, "_Z1kPi"), Options((root,)))
    assert source.headers_by_compiler
    made, reproducer = run_generate(store, digest)
    check_out(store, made, reproducer, tmp_path / "project", force=False)
    edited = tmp_path / "project/kernel_variant.cpp"
    edited.write_text("#error edited\n")
    assert "kernel_variant.cpp" in make(tmp_path / "project", "recompile").stderr


def test_a_capture_alone_makes_a_project_that_says_why_it_cannot_be_rebuilt(store, demo_tree, tmp_path):
    made, reproducer = run_generate(store, publish(store, demo_tree[1], ADD_ROWS))
    check_out(store, made, reproducer, tmp_path / "project", force=False)
    assert not reproducer.can_recompile
    failed = make(tmp_path / "project", "recompile")
    assert failed.returncode != 0
    assert "kc-generate without --assembly" in failed.stderr
    assert make(tmp_path / "project", "help").returncode == 0


def test_files_of_something_else_are_never_overwritten(store, demo_tree, tmp_path):
    from kerncap_stages.errors import UsageError

    made, reproducer = run_generate(store, publish(store, demo_tree[1], ADD_ROWS))
    other = tmp_path / "other"
    other.mkdir()
    (other / "Makefile").write_text("mine")
    with pytest.raises(UsageError, match="not a generated project"):
        check_out(store, made, reproducer, other, force=True)
    assert [path.name for path in other.iterdir()] == ["Makefile"]
