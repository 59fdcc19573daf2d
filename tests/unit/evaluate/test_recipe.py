"""What a project's files say about a build, and which flags of a variant its compiler gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from projects import write_record

from kerncap_stages.errors import UsageError
from kerncap_stages.evaluate.building import Builder
from kerncap_stages.evaluate.candidates import SOURCE_SUFFIXES, list_candidates
from kerncap_stages.evaluate.intake import Intake
from kerncap_stages.evaluate.recipe import read_recipe
from kerncap_stages.manifests.evaluation import Outcome

# The files by which a project of each compiler is known.
PROJECTS = {
    "hipcc": ("kernel_variant.cpp", "vfs.yaml"),
    "clang++": ("kernel_variant.cu", "vfs.yaml"),
    "nvcc": ("kernel_variant.cu",),
    "libnvrtc.so": ("kernel_variant.cu", "compile_nvrtc.py"),
}


def make(folder, *names):
    for name in (*names, "Makefile"):
        (folder / name).touch()
    write_record(folder)
    return read_recipe(folder)


@pytest.fixture(params=PROJECTS)
def recipe(request, tmp_path):
    made = make(tmp_path, *PROJECTS[request.param])
    assert made.compiler == request.param
    return made


def test_flags_that_change_code_are_given_with_absolute_paths(recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert recipe.choose_flags(["-DTILE=32", "-std=c++17", "-Iinclude"]) == (
        "-DTILE=32", "-std=c++17", f"-I{tmp_path}/include",
    )  # fmt: skip


@pytest.mark.parametrize(
    "flags", [("-MD", "-MF", "written"), ("-o", "written"), ("other.cpp",), ("-c",)], ids=" ".join
)
def test_flags_that_the_makefile_sets_are_refused(recipe, flags):
    with pytest.raises(UsageError, match=flags[0]):
        recipe.choose_flags(["-DTILE=32", *flags])


OTHER_ACTIONS = (
    "--help", "--version", "-emit-ast", "--precompile", "-extract-api", "-print-search-dirs", "-fsycl",
    "-Wp,-MD,written", "--write-dependencies", "--for-linker=-o/written", "-ftest-coverage", "--coverage",
)  # fmt: skip


@pytest.mark.parametrize("flag", OTHER_ACTIONS)
@pytest.mark.parametrize("compiler", ["hipcc", "clang++"])
def test_other_actions_and_outputs_are_refused_by_name(tmp_path, compiler, flag):
    recipe = make(tmp_path, *PROJECTS[compiler])
    with pytest.raises(UsageError) as caught:
        recipe.choose_flags(["-DTILE=32", flag])
    assert f"the flag {flag} is not used" in str(caught.value)


UNSAFE = {
    "hipcc": ("-fplugin=X.so", "-fpass-plugin=X.so", "@more", "-Bfolder", "-Xclang=-load", "--config=x"),
    "clang++": ("-fplugin=X.so", "-fpass-plugin=X.so", "@more", "--ptxas-path=x", "-Xcuda-ptxas=-o"),
    "nvcc": ("-ccbin=/tmp/g++", "-DX=$(touch x)", "-Xcompiler=-fplugin=X.so", "-optf", "-ldir=x", "-DX=`x`"),
    "libnvrtc.so": ("-DX=$(touch x)", "-ccbin=/tmp/g++", "--create-pch=x"),
}


@pytest.mark.parametrize(("compiler", "flag"), [(name, flag) for name in UNSAFE for flag in UNSAFE[name]])
def test_flags_that_run_code_or_write_files_are_refused_by_name(tmp_path, compiler, flag):
    recipe = make(tmp_path, *PROJECTS[compiler])
    with pytest.raises(UsageError) as caught:
        recipe.choose_flags(["-DTILE=32", flag])
    assert flag.partition("=")[2] in str(caught.value) or flag in str(caught.value)


def test_a_host_compiler_of_another_folder_is_not_run(tmp_path):
    recipe = make(tmp_path, *PROJECTS["nvcc"])
    (tmp_path / "g++").touch(mode=0o755)
    with pytest.raises(UsageError, match="ccbin"):
        recipe.choose_flags([f"-ccbin={Path(tmp_path) / 'g++'}"])


@pytest.mark.parametrize(
    ("source", "replaced_by"),
    [
        ("kernel_variant.cpp", {".cpp", ".hip", ".cu"}),
        ("kernel_variant.cu", {".cpp", ".hip", ".cu"}),
        ("kernel_variant.s", {".s"}),
        ("kernel_variant.ptx", set()),
        ("kernel_variant.py", set()),
    ],
)
def test_a_source_is_replaced_by_one_of_its_kind_alone(tmp_path, source, replaced_by):
    recipe = make(tmp_path, source, "kernel_variant.bak", "kernel_variant.cpp.orig")
    assert recipe.source == source
    taken = set()
    for suffix in SOURCE_SUFFIXES:
        try:
            recipe.refuse(suffix)
            taken.add(suffix)
        except UsageError as error:
            assert source in str(error)  # noqa: PT017
    assert taken == replaced_by


def test_a_folder_without_one_source_has_no_recipe(tmp_path):
    assert make(tmp_path, "kernel_variant.bak") is None
    assert make(tmp_path, "kernel_variant.cpp", "kernel_variant.s") is None


@pytest.mark.parametrize("source", ["kernel_variant.py", "kernel_variant.ptx"])
def test_a_refused_source_is_neither_written_nor_built(tmp_path, source):
    project, work = tmp_path / "project", tmp_path / "work"
    project.mkdir()
    work.mkdir()
    (project / source).write_text("the project's")
    (project / "Makefile").write_text(f"recompile assemble:\n\tcp {source} optimized.hsaco\n")
    write_record(project)
    (tmp_path / "a.hip").write_text("import os")
    entries = []
    builder = Builder(project, work, 1, 60.0)
    intake = Intake(list_candidates([str(tmp_path / "a.hip")]), work, builder, 1, entries.append)
    intake.start()
    intake._thread.join(60)
    assert entries[0].failed.outcome is Outcome.REFUSED
    assert entries[0].failed.reasons == (
        f"this project's source is {source}, and a .hip file cannot replace it",
    )
    # What builds would start from, and where compilers would leave files.
    assert sorted(each.name for each in work.iterdir()) == ["compilers", "project"]
    assert list((work / "compilers").iterdir()) == []
