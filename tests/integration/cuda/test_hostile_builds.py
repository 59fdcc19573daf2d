"""Build folders of anybody's making: on their word kc-locate and make run and overwrite nothing."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from cuda_captures import nvcc, publish_cuda
from cuda_projects import NEEDS_NVCC

from kerncap_stages.compilers.cuda_tools import find_cuda_tool
from kerncap_stages.generate.engine import run_generate
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options
from kerncap_stages.project.checkout import check_out

pytestmark = NEEDS_NVCC

SYMBOL = "_Z1kPf"
SOURCE = "__global__ void k(float* x) { *x = 1; }\n#ifdef __CUDA_ARCH__\n#warning text of the unit\n#endif\n"
# What cc1plus, cicc and ptxas load between them.
LIBRARIES = (
    "libisl.so.23",
    "libmpfr.so.6",
    "libz.so.1",
    "librt.so.1",
    "libpthread.so.0",
    "libdl.so.2",
    "libm.so.6",
)


class Build:
    """A source tree with a build folder; ``mark`` must never come to be."""

    def __init__(self, folder, unit="a.cu"):
        self.folder, self.unit = folder, folder / unit
        self.build = folder / "build"
        self.mark = folder.parent / "MARK"
        self.build.mkdir(parents=True)
        self.unit.write_text(SOURCE)
        self.code = nvcc(self.unit, folder.parent / "a.cubin")

    def command(self, *words, directory=None, ways=((), ("-DSECOND",))):
        """Two ways to compile: where there is a choice, the unit is really compiled."""
        entries = [
            {"directory": str(directory or self.build), "file": str(self.unit),
             "arguments": ["nvcc", *more, *words, "-c", str(self.unit), "-o", "a.o"]}
            for more in ways
        ]  # fmt: skip
        (self.build / "compile_commands.json").write_text(json.dumps(entries))

    def locate(self, store, **options):
        return run_locate(store, publish_cuda(store, self.code, SYMBOL), Options((self.folder,), **options))

    def recompile(self, store, digest):
        made, reproducer = run_generate(store, digest)
        project = self.folder.parent / "project"
        check_out(store, made, reproducer, project, force=False)
        return subprocess.run(
            ["make", "-C", project, "recompile"], capture_output=True, text=True, check=False
        )


@pytest.fixture
def build(tmp_path):
    return Build(tmp_path / "tree")


def test_libraries_in_the_build_folder_are_not_loaded(build, store, tmp_path, monkeypatch):
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    (tmp_path / "evil.c").write_text(
        "#include <fcntl.h>\n__attribute__((constructor)) void run(void) "
        f'{{ open("{build.mark}", O_CREAT, 0600); }}\n'
    )
    library = tmp_path / "evil.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "evil.c"], check=True)
    for name in LIBRARIES:
        shutil.copy(library, build.build / name)
    build.command()
    _, source = build.locate(store)
    assert not build.mark.exists()
    assert source.headers_by_compiler, source.explanation


OPTIONS = (
    "-Xcompiler=-fdump-go-spec={mark}",
    "-Xcompiler=-fopt-info-all={mark}",
    "-fdump-go-spec={mark}",
    "-Xcicc=--error_output={mark}",
    "-Xcicc=--error_output,{mark}",
    "-Xcicc=--list={mark}",
    "-Xcicc=--xref={mark}",
    "-Xcudafe=--error_output={mark}",
    "-Xptxas=--options-file={mark}",
    "-sanitize=>{mark}",
    "-sanitize=;touch {mark};",
    '-frandom-seed=";touch {mark};"',
    '-I"\\";touch {mark};\\""',
    '-isystem="\\";touch {mark};\\""',
    '--pre-include="\\";touch {mark};\\""',
    '-DX="\\";touch {mark};\\""',
)


def test_no_flag_writes_a_file_or_reaches_a_shell(build, store):
    words = [option.format(mark=build.mark) for option in OPTIONS]
    build.command(*words)
    digest, source = build.locate(store)
    done = build.recompile(store, digest)
    assert not build.mark.exists()
    assert source.headers_by_compiler
    assert [word for word in words if word not in source.explanation] == []
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "name", ['"\\";touch MARK;\\"".cu', "a;touch MARK;.cu", "$(touch MARK).cu", "a b (1).cu"]
)
def test_no_name_of_a_unit_reaches_a_shell(store, tmp_path, name):
    build = Build(tmp_path / "tree")
    build.unit = build.unit.rename(build.folder / name)
    build.command(directory=build.folder, ways=[()])
    _, source = build.locate(store)
    assert list(tmp_path.rglob("MARK")) == []
    assert not source.headers_by_compiler
    assert "runs a shell, which may interpret characters in" in source.explanation


def test_folders_with_spaces_are_no_hindrance(store, tmp_path):
    build = Build(tmp_path / "my tree")
    (build.folder / "some headers").mkdir()
    (build.folder / "some headers/a.h").touch()
    build.unit.write_text(f'#include "a.h"\n{SOURCE}')
    build.command("-I", "../some headers")
    _, source = build.locate(store)
    assert source.headers_by_compiler, source.explanation
    assert str(build.folder / "some headers/a.h") in {file.path for file in source.files}


def test_no_response_file_of_the_folder_is_read(build, store):
    """GCC takes one for any argument, also for a header's name; what runs a program may stand in it."""
    program = build.build / "wrapper"
    program.write_text(f'#!/bin/sh\ntouch "{build.mark}"\nexec "$@"\n')
    program.chmod(0o755)
    (build.build / "words").write_text(f"stddef.h -wrapper {program}\n")
    words = (f"--pre-include=@{build.build}/words", f"-Xcompiler=-include,@{build.build}/words")
    build.command(*words)
    digest, source = build.locate(store)
    done = build.recompile(store, digest)
    assert not build.mark.exists()
    assert [word for word in words if word not in source.explanation] == []
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", ["{build}/g++", "./g++", "{build}"])
def test_with_a_given_compiler_no_program_of_the_folder_runs(build, store, path):
    program = build.build / "g++"
    program.write_text(f'#!/bin/sh\ntouch "{build.mark}"\nexec /usr/bin/g++ "$@"\n')
    program.chmod(0o755)
    build.command("-ccbin", path.format(build=build.build))
    digest, source = build.locate(store, compiler=find_cuda_tool("nvcc"))
    done = build.recompile(store, digest)
    assert not build.mark.exists()
    assert "-ccbin" in source.explanation
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", ["{build}/nvcc", "./nvcc"])
def test_a_compiler_of_the_build_folder_is_not_run(build, store, path):
    program = build.build / "nvcc"
    program.write_text(f'#!/bin/sh\ntouch "{build.mark}"\nexec nvcc "$@"\n')
    program.chmod(0o755)
    entry = {"directory": str(build.build), "file": str(build.unit),
             "arguments": [path.format(build=build.build), "-c", str(build.unit)]}  # fmt: skip
    (build.build / "compile_commands.json").write_text(json.dumps([entry]))
    digest, source = build.locate(store)
    done = build.recompile(store, digest)
    assert not build.mark.exists()
    assert source.headers_by_compiler, source.explanation
    assert "is in the folder of the build and was not run" in source.explanation
    assert done.returncode == 0, done.stderr
