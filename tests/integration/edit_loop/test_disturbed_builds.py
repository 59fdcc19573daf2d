"""What is judged was built of the sources that lie there, whatever happens to a build or its folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from made_up import device_code, make, publish

from kerncap_stages.errors import Refused
from kerncap_stages.generate.engine import run_generate
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options
from kerncap_stages.project.built import require_current, warn_of_stale_variant
from kerncap_stages.project.checkout import check_out

pytestmark = pytest.mark.skipif(shutil.which("hipcc") is None, reason="needs hipcc: run it in the ROCm root")

KERNEL = """#include <hip/hip_runtime.h>
#ifndef FACTOR
#define FACTOR 2
#endif
__global__ void scale(float* x) { x[threadIdx.x] *= FACTOR; }
"""
BUILT = "optimized.hsaco"
READ_ONLY = Path(__file__).parents[2] / "helpers/read_only_folder.py"


@pytest.fixture
def project(store, tree, tmp_path):
    """A project of source in which nothing was built yet."""
    (tree / "k.hip").write_text(KERNEL)
    digest, _ = run_locate(
        store, publish(store, device_code(tree / "k.hip", tree / "k.hsaco"), "_Z5scalePf"), Options((tree,))
    )
    made, reproducer = run_generate(store, digest)
    folder = tmp_path / "project"
    check_out(store, made, reproducer, folder, force=False)
    return folder


def include(project, header):
    source = project / "kernel_variant.cpp"
    source.write_text(f'#include "{header}"\n' + KERNEL)


def must(done):
    assert done.returncode == 0, done.stderr
    return done


def write_tool(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("name", ["a:b", "a;b", "a|b", "a\tb", "a\\b", "a\\ b", "a=b%c", "$x #'\"", "a\nb"])
def test_folders_with_odd_names_build_only_after_an_edit(project, tmp_path, name):
    folder = project.rename(tmp_path / name)
    for _ in range(2):
        must(make(folder, "recompile"))
    assert "Nothing to be done" in make(folder, "recompile").stdout
    source = folder / "kernel_variant.cpp"
    source.write_text(source.read_text().replace("FACTOR 2", "FACTOR 3"))
    assert "Nothing to be done" not in must(make(folder, "recompile")).stdout
    require_current(folder, folder / BUILT)


@pytest.mark.parametrize(
    "below", ["project/own.hpp", "project/-d/own.hpp", "project/optimized.hpp", "a b/$x.hpp"]
)
def test_a_header_that_an_edit_includes_is_known_by_its_contents(project, tmp_path, below):
    header = tmp_path / below
    header.parent.mkdir(exist_ok=True)
    header.write_text("#define FACTOR 4\n")
    include(project, header)
    must(make(project, "recompile"))
    assert "Nothing to be done" in make(project, "recompile").stdout
    before = (project / BUILT).read_bytes()
    header.write_text("#define FACTOR 5\n")
    os.utime(header, (1, 1))
    with pytest.raises(Refused, match=re.escape(f"{header.name} was edited after")):
        require_current(project, project / BUILT)
    assert warn_of_stale_variant(project, project / BUILT)
    must(make(project, BUILT))
    assert (project / BUILT).read_bytes() != before
    require_current(project, project / BUILT)
    assert "up to date" in make(project, BUILT).stdout
    moved = project.rename(tmp_path / "moved")
    if not below.startswith("project/"):
        header.unlink()  # as on another machine
    require_current(moved, moved / BUILT)


def test_a_header_that_is_edited_while_it_is_compiled_is_not_taken_for_built(project, tmp_path):
    header = tmp_path / "own.hpp"
    header.write_text("#define FACTOR 4\n")
    include(project, header)
    save = f"echo '#define FACTOR 5' > {header}; touch -d 2020-01-01 {header}"
    tool = write_tool(tmp_path / "compiler", f'hipcc "$@" && {save}')
    done = make(project, "recompile", HIPCC=tool)
    assert done.returncode != 0
    assert "a header was edited while it was compiled: build again" in done.stderr
    assert not (project / BUILT).exists()
    must(make(project, "recompile"))
    assert warn_of_stale_variant(project, project / BUILT) == []


def test_a_header_with_a_time_in_the_future_is_built(project, tmp_path):
    header = tmp_path / "own.hpp"
    header.write_text("#define FACTOR 4\n")
    include(project, header)
    os.utime(header, (4e9, 4e9))
    must(make(project, "recompile"))
    assert "Nothing to be done" in make(project, "recompile").stdout


def test_what_a_killed_build_left_is_not_used(project, tmp_path):
    tool = write_tool(tmp_path / "compiler", 'hipcc "$@"; kill -9 $PPID')
    assert make(project, "recompile", HIPCC=tool).returncode == -9
    source = project / "kernel_variant.cpp"
    source.write_text(source.read_text().replace("FACTOR 2", "FACTOR 3"))
    os.utime(source, (1, 1))
    assert not (project / BUILT).exists()
    must(make(project, BUILT))
    require_current(project, project / BUILT)
    assert warn_of_stale_variant(project, project / BUILT) == []
    must(make(project, "clean"))
    assert [path.name for path in project.iterdir() if "built" in path.name or BUILT in path.name] == []


def test_two_builds_at_once_leave_nothing_of_other_sources(project, tmp_path):
    """The slow one began before the edit, and its compiler writes after that of the other."""
    new, told, go = project / f"{BUILT}.new", tmp_path / "told", tmp_path / "go"
    for pipe in (told, go):
        os.mkfifo(pipe)
    wait = f"cp {new} {tmp_path}/kept; echo > {told}; cat {go}; cp {tmp_path}/kept {new}"
    slow = write_tool(tmp_path / "slow", f'hipcc "$@"; {wait}')
    words = ("make", "-C", project, "recompile", f"HIPCC={slow}")
    first = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    told.read_text()
    source = project / "kernel_variant.cpp"
    source.write_text(source.read_text().replace("FACTOR 2", "FACTOR 3"))
    must(make(project, "recompile"))
    go.write_text("")
    assert "a source was edited while it was compiled: build again" in first.communicate()[1]
    must(make(project, BUILT))
    require_current(project, project / BUILT)
    assert warn_of_stale_variant(project, project / BUILT) == []


def test_judging_and_timing_do_not_run_at_once(project, tmp_path):
    log = tmp_path / "log"
    tool = write_tool(tmp_path / "tool", f"echo begin >> {log}; sleep 0.3; echo end >> {log}")
    must(make(project, "-j8", "recompile", "validate-variant", "bench", KC_VALIDATE=tool, KC_REPLAY=tool))
    assert log.read_text().split() == ["begin", "end"] * 2


def test_variables_that_the_compiler_reads_count(project, tmp_path, monkeypatch):
    must(make(project, "recompile"))
    monkeypatch.setenv("CPATH", str(tmp_path))
    assert "Nothing to be done" not in must(make(project, "recompile")).stdout
    assert "Nothing to be done" in must(make(project, "recompile")).stdout


def test_flags_are_taken_as_they_are_without_those_that_name_a_gpu(project, monkeypatch):
    name = "HIPCC_COMPILE_FLAGS_APPEND"
    must(make(project, "recompile", **{name: "-DFACTOR=3 --offload-arch=gfx942"}))
    assert "-DFACTOR=3" in (project / "built.sha256").read_text().splitlines()[0]
    monkeypatch.setenv(name, "\"-DTEXT='$x'\"")
    must(make(project, "recompile"))
    assert "\"-DTEXT='$x'\"" in (project / "built.sha256").read_text().splitlines()[0]


def test_an_empty_name_of_a_compiler_is_none_and_a_missing_one_is_named(project):
    must(make(project, "recompile", HIPCC=""))
    done = make(project, "recompile", HIPCC="no-such-hipcc -DX='a b'")
    assert done.returncode != 0
    assert "there is no compiler no-such-hipcc: make recompile HIPCC=PATH takes another one" in done.stderr
    assert not (project / BUILT).exists()


def test_a_folder_that_cannot_be_written_to_is_named(project):
    """Also for the superuser, as on a disk that is read-only."""
    words = (sys.executable, READ_ONLY, project, "make", "-C", project, "recompile")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "this folder cannot be written to: copy it (cp -r) and build there" in done.stderr
