"""CUDA sources that clang compiled: rebuilt by clang, as PTX. These need no header of CUDA's own."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from cuda_captures import publish_cuda

from kerncap_stages.code.cubin import find_kernel_code
from kerncap_stages.compilers.installed import find_compiler
from kerncap_stages.generate.engine import run_generate
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options
from kerncap_stages.manifests.source import Outcome
from kerncap_stages.project.checkout import check_out
from kerncap_stages.project.variants import find_built_variant

CUBIN = Path(__file__).parents[2] / "golden/cuda/facts.cubin"
INCREMENT = "_Z9incrementIfEvPT_"
SOURCES = {
    "include/own_cuda.h": "#define __global__ __attribute__((global))\n",
    "src/increment.cuh": "template <typename T>\n__global__ void increment(T* x) {\n  *x += STEP;\n}\n",
    "src/main.cu": '#include "increment.cuh"\ntemplate __global__ void increment<float>(float*);\n',
    "src/unrelated.cuh": "",
}


@pytest.fixture
def tree(tmp_path):
    """A source tree, and what adds flags to the compile command of its unit."""
    folder = tmp_path / "app"
    for name, text in SOURCES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "build").mkdir()
    clang = find_compiler("hipcc").path

    def built(*more):
        words = [clang, "-x", "cuda", "--cuda-gpu-arch=sm_90", "-nocudainc", "-nocudalib", "-I../include"]
        words += [
            "-include",
            "../include/own_cuda.h",
            "-DSTEP=2.0f",
            "-O3",
            *more,
            "-c",
            "../src/main.cu",
            "-o",
            "main.o",
        ]
        entry = {"directory": str(folder / "build"), "file": "../src/main.cu", "arguments": words}
        (folder / "build/compile_commands.json").write_text(json.dumps([entry]))
        return folder

    return built


def located(store, folder):
    return run_locate(store, publish_cuda(store, CUBIN.read_bytes(), INCREMENT), Options((folder,)))


def recompiled(project):
    done = subprocess.run(["make", "-C", project, "recompile"], capture_output=True, text=True, check=False)
    return done, (project / "optimized.ptx").read_text() if done.returncode == 0 else ""


def test_the_definition_and_exactly_the_local_headers_are_found(store, tree):
    folder = tree()
    _, source = located(store, folder)
    assert source.outcome is Outcome.FOUND, source.explanation
    assert source.headers_by_compiler, source.explanation
    assert {file.path for file in source.files} == {
        str(folder / name) for name in SOURCES if name != "src/unrelated.cuh"
    }
    assert "clang version" in source.compile_command.compiler_version


def test_an_edit_is_rebuilt_in_a_moved_project_without_the_tree(store, tree, tmp_path):
    folder = tree()
    digest, _ = located(store, folder)
    made, reproducer = run_generate(store, digest)
    project = tmp_path / "moved to" / "there"
    check_out(store, made, reproducer, project, force=False)
    folder.rename(folder.with_name("away"))
    done, ptx = recompiled(project)
    assert done.returncode == 0, done.stderr
    assert re.search(rf"\.entry {INCREMENT}\(", ptx)
    assert ".target sm_90" in ptx
    assert "0f40000000" in ptx  # 2.0f
    variant = project / "kernel_variant.cu"
    assert variant.read_text() == SOURCES["src/increment.cuh"]
    variant.write_text(variant.read_text().replace("STEP", "2 * STEP"))
    done, ptx = recompiled(project)
    assert done.returncode == 0, done.stderr
    assert "0f40800000" in ptx
    assert find_kernel_code((project / "optimized.cubin").read_bytes(), INCREMENT)
    (project / "optimized.ptx").unlink()
    subprocess.run(["make", "-C", project, "clean"], check=True, capture_output=True)
    subprocess.run(["make", "-C", project, "PTXAS=", "recompile"], check=True, capture_output=True)
    assert find_built_variant(project).name == "optimized.ptx"  # the driver's to assemble
    variant.write_text(variant.read_text() + "#error a mistake\n")
    done, _ = recompiled(project)
    assert "a mistake" in done.stderr
    assert find_built_variant(project) is None


def test_a_compiler_that_the_build_has_from_path_is_taken_by_its_name(store, tree, tmp_path, monkeypatch):
    folder = tree()
    database = folder / "build/compile_commands.json"
    (entry,) = json.loads(database.read_text())
    clang, *words = entry["arguments"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/clang++-77").symlink_to(clang)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    database.write_text(json.dumps([{**entry, "arguments": ["clang++-77", *words]}]))
    made, reproducer = run_generate(store, located(store, folder)[0])
    check_out(store, made, reproducer, tmp_path / "project", force=False)
    done, _ = recompiled(tmp_path / "project")
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path}/bin/clang++-77 " in done.stdout


@pytest.mark.parametrize(
    "flag", ["-fplugin=/tmp/evil.so", "--ptxas-path=/tmp/evil", "-Xcuda-ptxas --evil", "-B/tmp/evil"]
)
def test_what_runs_or_loads_code_is_left_out_and_named(store, tree, flag):
    _, source = located(store, tree(*flag.split()))
    assert source.outcome is Outcome.FOUND
    assert flag in source.explanation
    assert not any("evil" in word for word in source.compile_command.arguments)


def test_of_two_units_the_one_that_instantiates_the_kernel_is_taken(store, tree):
    folder = tree()
    database = folder / "build/compile_commands.json"
    (entry,) = json.loads(database.read_text())
    (folder / "src/other.cu").write_text('#include "increment.cuh"\n// increment<double> alone\n')
    arguments = [word.replace("main.", "other.") for word in entry["arguments"]]
    other = {**entry, "file": "../src/other.cu", "arguments": arguments}
    database.write_text(json.dumps([other, entry]))
    _, source = located(store, folder)
    assert source.compile_command.translation_unit == str(folder / "src/main.cu")
