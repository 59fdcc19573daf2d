"""Of what a code object in a project's folder was built is known by its contents, not by its time."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess

import pytest
from made_up import device_code, make, publish

from kerncap_stages.errors import Refused
from kerncap_stages.evaluate.candidates import list_candidates
from kerncap_stages.generate.engine import run_generate
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options
from kerncap_stages.project.built import require_current, warn_of_stale_variant
from kerncap_stages.project.checkout import check_out

pytestmark = pytest.mark.skipif(shutil.which("hipcc") is None, reason="needs hipcc: run it in the ROCm root")

KERNEL = """#include <hip/hip_runtime.h>
__global__ void scale(float* x) { x[threadIdx.x] *= 2; }
"""


@pytest.fixture(params=[False, True], ids=["source", "assembly"])
def project(request, store, tree, tmp_path):
    """A project of source or of assembly, in which make has built."""
    (tree / "k.hip").write_text(KERNEL)
    digest = publish(store, device_code(tree / "k.hip", tree / "k.hsaco"), "_Z5scalePf")
    if not request.param:
        digest, _ = run_locate(store, digest, Options((tree,)))
    made, reproducer = run_generate(store, digest, assembly=request.param)
    folder = tmp_path / "project"
    check_out(store, made, reproducer, folder, force=False)
    done = make(folder, "optimized.hsaco")
    assert done.returncode == 0, done.stderr
    return folder


def test_what_make_built_is_not_remarked_on(project):
    assert warn_of_stale_variant(project, project / "optimized.hsaco") == []
    (source,) = project.glob("kernel_variant.*")
    source.touch()  # the same text
    require_current(project, project / "optimized.hsaco")
    assert {each.problem for each in list_candidates([str(project)])} == {None}
    assert warn_of_stale_variant(project, project / "optimized.hsaco") == []


def test_make_builds_again_by_force(project):
    before = (project / "optimized.hsaco").read_bytes()
    done = make(project, "-B", "optimized.hsaco")
    assert done.returncode == 0, done.stderr
    assert (project / "optimized.hsaco").read_bytes() == before
    require_current(project, project / "optimized.hsaco")


def test_a_file_that_was_deleted_is_named_and_comes_back(project):
    (source,) = project.glob("kernel_variant.*")
    before = source.read_bytes()
    source.unlink()
    with pytest.raises(Refused, match=f"^{source.name} was deleted after .* was built$"):
        require_current(project, project / "optimized.hsaco")
    done = make(project, "optimized.hsaco")
    assert done.returncode != 0
    assert f"{source.name} is missing. In this folder, `kc-generate " in done.stderr
    command = re.search("`(kc-generate .*)`", done.stderr)
    assert command is not None
    subprocess.run(shlex.split(command[1]), cwd=project, check=True, capture_output=True)
    assert source.read_bytes() == before
    require_current(project, project / "optimized.hsaco")


@pytest.mark.parametrize("put", [os.link, os.symlink, shutil.copy])
def test_what_was_put_there_is_not_taken_for_built(project, put):
    built = project / "optimized.hsaco"
    other = project / "other.hsaco"
    other.write_bytes(built.read_bytes() + b"of other sources")
    built.unlink()
    put(other, built)
    assert "is up to date" in make(project, "optimized.hsaco").stdout  # it is newer
    require_current(project, built)  # nothing tells what it was built from
    (note,) = warn_of_stale_variant(project, built)
    assert "was not built by make in this folder" in note
    built.unlink()
    assert make(project, "optimized.hsaco").returncode == 0
    assert warn_of_stale_variant(project, built) == []
    assert other.read_bytes().endswith(b"of other sources")


def test_an_edit_is_told_whatever_the_times_say(project):
    (source,) = project.glob("kernel_variant.*")
    source.write_text(source.read_text() + "\n")
    os.utime(source, (0, 0))
    (note,) = warn_of_stale_variant(project, project / "optimized.hsaco")
    assert note.startswith(f"{source.name} was edited after")
    with pytest.raises(Refused, match=f"^{source.name} was edited after .* was built$") as refused:
        require_current(project, project / "optimized.hsaco")
    target = "assemble" if source.suffix == ".s" else "recompile"
    assert f"`make -C {project} {target}`" in refused.value.hint
    problems = {each.path.name: each.problem for each in list_candidates([str(project)])}
    assert problems["optimized.hsaco"] == str(refused.value)
    assert problems[source.name] is None  # it is built now
    (alone,) = list_candidates([str(project / "optimized.hsaco")])
    assert alone.problem is None
    assert make(project, "clean").returncode == 0
    assert not (project / "built.sha256").exists()


def test_an_edit_with_an_older_time_is_built(project):
    """As in a copy of the project, whose files have the times of copying."""
    (source,) = project.glob("kernel_variant.*")
    built = project / "optimized.hsaco"
    before = built.read_bytes()
    source.write_text(source.read_text().replace("*= 2", "*= 3") + "\n")
    os.utime(source, (1, 1))
    assert make(project, "optimized.hsaco").returncode == 0
    require_current(project, built)
    assert (built.read_bytes() != before) == (source.suffix != ".s")
    assert "is up to date" in make(project, "optimized.hsaco").stdout


def test_an_edit_while_it_is_built_is_not_taken_for_built(project, tmp_path):
    """The compiler has read the file before; what is saved then is newer than the record, or as new."""
    (source,) = project.glob("kernel_variant.*")
    is_assembly = source.suffix == ".s"
    tool = tmp_path / "compiler"
    program = shutil.which("kc-assemble" if is_assembly else "hipcc")
    tool.write_text(f'#!/bin/sh\n{program} "$@" && echo >> {source}\n')
    tool.chmod(0o755)
    words = (f"KC_ASSEMBLE={tool}" if is_assembly else f"HIPCC={tool}",)
    source.write_text(source.read_text() + "\n")
    done = make(project, "optimized.hsaco", *words)
    assert done.returncode != 0
    assert "a source was edited while it was compiled" in done.stderr
    assert not (project / "optimized.hsaco").exists()
    assert make(project, "optimized.hsaco").returncode == 0
    require_current(project, project / "optimized.hsaco")


def test_another_command_builds_again_if_that_is_asked_for(project):
    target = "assemble" if (project / "kernel_variant.s").exists() else "recompile"
    assert "up to date" in make(project, "optimized.hsaco").stdout
    assert "Nothing to be done" in make(project, target).stdout
    flags = "HIPCC_COMPILE_FLAGS_APPEND=-DOTHER='a b'"
    again = make(project, target, flags)
    assert ("Nothing to be done" in again.stdout) == (target == "assemble")
    assert "Nothing to be done" in make(project, target, flags).stdout
    # Whoever built with other flags times and judges that.
    assert "up to date" in make(project, "optimized.hsaco").stdout


@pytest.mark.parametrize("project", [False], indirect=True, ids=["source"])
def test_a_header_that_an_edit_includes_counts(project, tmp_path):
    headers = {"beside": tmp_path / "a b's $x #.hpp", "own": project / "deps/own.hpp"}
    (source,) = project.glob("kernel_variant.*")
    included = "".join(f'#include "{path}"\n' for path in headers.values())
    source.write_text(included + source.read_text().replace("*= 2", "*= beside() + own()"))
    headers["own"].parent.mkdir(exist_ok=True)
    for name, path in headers.items():
        path.write_text(f"__device__ inline float {name}() {{ return 1; }}\n")
    assert make(project, "recompile").returncode == 0
    for path in headers.values():
        assert "Nothing to be done" in make(project, "recompile").stdout
        before = (project / "optimized.hsaco").read_bytes()
        path.write_text(path.read_text().replace("1;", "3;"))
        assert make(project, "recompile").returncode == 0
        assert (project / "optimized.hsaco").read_bytes() != before
    headers["own"].unlink()
    text = source.read_text().replace(f'#include "{headers["own"]}"\n', "")
    source.write_text(text.replace(" + own()", ""))
    assert make(project, "recompile").returncode == 0
    moved = project.rename(tmp_path / "moved")
    assert make(moved, "recompile").returncode == 0
