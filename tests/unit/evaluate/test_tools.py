"""When a code object that was built before is not used: another compiler, or something that steers it."""

from __future__ import annotations

import os

import pytest
from projects import write_record

from kerncap_stages.evaluate import intake as intake_module
from kerncap_stages.evaluate.building import Builder
from kerncap_stages.evaluate.candidates import Candidate
from kerncap_stages.evaluate.tools import identify_tools

MAKEFILE = "HIPCC ?= hipcc\nrecompile:\n\t$(HIPCC) kernel_variant.cpp > optimized.hsaco\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "kernel_variant.cpp").write_text("original")
    (folder / "vfs.yaml").touch()
    write_record(folder)
    install(tmp_path / "bin/hipcc", "cat")
    install(tmp_path / "bin/other", "cat")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.delenv("HIPCC", raising=False)
    return folder


def install(path, says):
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'#!/bin/sh\n{says} "$@"\n')
    path.chmod(0o755)


def test_compilers_are_the_same_until_one_is_replaced(project, tmp_path):
    before = identify_tools(project)
    assert before is not None
    assert identify_tools(project) == before
    install(tmp_path / "bin/hipcc", "exec cat")
    assert identify_tools(project) != before


def test_the_clang_that_hipcc_calls_counts(project, tmp_path, monkeypatch):
    install(tmp_path / "llvm/clang++", "one")
    monkeypatch.setenv("HIP_CLANG_PATH", str(tmp_path / "llvm"))
    (tmp_path / "bin/hipcc").rename(tmp_path / "bin/hipcc.bin")
    (project / "Makefile").write_text(MAKEFILE.replace("?= hipcc", "?= hipcc.bin"))
    before = identify_tools(project)
    install(tmp_path / "llvm/clang++", "another")
    assert identify_tools(project) != before


@pytest.mark.parametrize(
    "name",
    [
        "HIPCC",
        "NVCC",
        "CLANG",
        "PATH",
        "CPATH",
        "NVCC_APPEND_FLAGS",
        "HIPCC_COMPILE_FLAGS_APPEND",
        "GPU_ARCH",
    ],
)
def test_what_steers_a_compiler_counts(project, monkeypatch, name):
    before = identify_tools(project)
    monkeypatch.setenv(name, f"{os.environ.get('PATH')}:/more" if name == "PATH" else "other")
    assert identify_tools(project) != before


def test_without_make_nothing_is_known(project):
    (project / "Makefile").write_text("$(error broken)")
    assert identify_tools(project) is None


@pytest.mark.parametrize(
    ("fresh", "flags", "code"),
    [(False, (), b"of before"), (True, (), b"mine"), (False, ("-Ifolder",), b"mine")],
)
def test_a_build_of_before_is_used_unless_something_may_have_changed(
    project, tmp_path, monkeypatch, store, fresh, flags, code
):
    monkeypatch.setattr(intake_module, "find_built", lambda *_: b"of before")
    (tmp_path / "a.hip").write_text("mine")
    (tmp_path / "codes").mkdir()
    entries = []
    intake = intake_module.Intake(
        [Candidate("a", tmp_path / "a.hip", flags)],
        tmp_path / "codes", store, "machine", Builder(project, tmp_path, 1, 60.0), 1, entries.append,
        fresh=fresh,
    )  # fmt: skip
    intake.start()
    intake._thread.join(60)
    assert entries[0].code.read_bytes() == code
