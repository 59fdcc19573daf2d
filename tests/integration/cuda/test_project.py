"""From a captured CUDA kernel to a project that rebuilds it: the real nvcc, a made-up snapshot."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cuda_captures import nvcc, publish_cuda
from cuda_projects import NEEDS_NVCC, PLAIN, SCALE, TREE, make, project_of

from kerncap_stages.code.cubin import find_kernel_code, read_cubin
from kerncap_stages.compilers.cuda_tools import find_cuda_tool
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options
from kerncap_stages.manifests.kernel import Language
from kerncap_stages.manifests.source import Outcome

pytestmark = NEEDS_NVCC


def hidden_symbol(code):
    return next(name for name in read_cubin(code).kernels if "hidden" in name)


def test_finds_definition_command_and_exactly_the_local_headers(store, tree):
    folder, code = tree
    _, source = run_locate(store, publish_cuda(store, code, SCALE), Options((folder,)))
    assert source.outcome is Outcome.FOUND, source.explanation
    assert source.language is Language.CUDA_CPP
    assert source.definition.path == str(folder / "src/kernels/scale.cuh")
    assert source.definition.qualified_name == "rows::scale"
    # Also what only the device's pass reads.
    assert {file.path for file in source.files} == {
        str(folder / path)
        for path in ("src/kernels/scale.cuh", "src/main.cu", "src/step.cuh", "include/shape.cuh",
                     "include/device_only.cuh")
    }  # fmt: skip
    assert source.files[0].path == source.definition.path
    assert source.headers_by_compiler
    assert list(source.compile_command.arguments) == [
        *("nvcc", "-forward-unknown-to-host-compiler", f"-I{folder}/include", "-DWIDTH=4"),
        *('-DNAME="a b"', "-O3", "-std=c++17", "-Xcompiler=-fPIC"),
    ]
    assert "release 1" in source.compile_command.compiler_version


@pytest.mark.parametrize("which", ["template in a header", "plain", "anonymous namespace"])
def test_the_unchanged_source_rebuilds_to_the_same_instructions_elsewhere(store, tree, tmp_path, which):
    folder, code = tree
    symbol = {"template in a header": SCALE, "plain": PLAIN}.get(which) or hidden_symbol(code)
    digest, source = run_locate(store, publish_cuda(store, code, symbol), Options((folder,)))
    assert source.outcome is Outcome.FOUND, source.explanation
    project = project_of(store, digest, tmp_path / "project")
    moved = tmp_path / "moved to" / "there"
    moved.parent.mkdir()
    project.rename(moved)
    away = folder.with_name("away")
    folder.rename(away)
    try:
        done = make(moved, "recompile")
    finally:
        away.rename(folder)
    assert done.returncode == 0, done.stderr
    made = find_kernel_code((moved / "optimized.cubin").read_bytes(), symbol)
    assert made is not None
    assert made == find_kernel_code(code, symbol)
    assert "Nothing to be done" in make(moved, "recompile").stdout


@pytest.mark.parametrize("variable", ["NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS"])
def test_a_target_in_the_environment_keeps_nothing_from_being_rebuilt(
    store, tree, tmp_path, monkeypatch, variable
):
    folder, code = tree
    monkeypatch.setenv(variable, "-gencode arch=compute_80,code=sm_80 -arch=sm_80 -DUNUSED --keep")
    digest, source = run_locate(store, publish_cuda(store, code, PLAIN), Options((folder,)))
    assert source.outcome is Outcome.FOUND, source.explanation
    assert source.unedited.same_instructions, source.unedited
    monkeypatch.setenv(variable, "-gencode arch=compute_80,code=sm_80 -arch=sm_80 -DUNUSED")
    project = project_of(store, digest, tmp_path / "project")
    done = make(project, "recompile")
    assert done.returncode == 0, done.stderr
    built = (project / "optimized.cubin").read_bytes()
    assert find_kernel_code(built, PLAIN) == find_kernel_code(code, PLAIN)


def test_an_edit_rebuilds_and_errors_name_a_file_of_the_project(store, tree, tmp_path):
    folder, code = tree
    digest, _ = run_locate(store, publish_cuda(store, code, SCALE), Options((folder,)))
    project = project_of(store, digest, tmp_path / "project")
    variant = project / "kernel_variant.cu"
    assert "rows" in variant.read_text()
    assert make(project, "recompile").returncode == 0
    before = (project / "optimized.cubin").read_bytes()
    variant.write_text(variant.read_text().replace("SCALE_UNIT /", "SCALE_UNIT + 1 /"))
    assert make(project, "recompile").returncode == 0
    assert find_kernel_code((project / "optimized.cubin").read_bytes(), SCALE) != find_kernel_code(
        before, SCALE
    )
    header = project / "deps/include/shape.cuh"
    header.write_text(header.read_text().replace("int rows", "int lines"))
    failed = make(project, "recompile")
    assert failed.returncode != 0
    assert "deps/src/kernels/scale.cuh" in failed.stderr
    assert not (project / "optimized.cubin").exists()
    # Editing through the link is editing the file.
    assert (project / "deps/src/kernels/scale.cuh").resolve() == variant.resolve()


def test_of_two_commands_the_one_that_made_the_code_is_taken(store, tree, tmp_path):
    folder = tmp_path / "tree"
    shutil.copytree(tree[0], folder)
    commands = [
        ["nvcc", *more, f"-I{folder}/include", "-std=c++17", "-c", "../src/main.cu"]
        for more in (("-DWIDTH=2",), ("-DWIDTH=4", "-G"), ("-DWIDTH=4",))
    ]
    entries = [
        {"directory": str(folder / "build"), "file": "../src/main.cu", "arguments": words}
        for words in commands
    ]
    (folder / "build/compile_commands.json").write_text(json.dumps(entries))
    _, source = run_locate(store, publish_cuda(store, tree[1], SCALE), Options((folder,)))
    assert "-DWIDTH=4" in source.compile_command.arguments
    assert "-G" not in source.compile_command.arguments


def test_what_a_shell_would_read_is_left_out_and_named(store, tree, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "tree"
    shutil.copytree(tree[0], folder)
    words = ["nvcc", "-DWIDTH=4", f"-I{folder}/include", "-DX=$(touch pwned)", "-DY=`touch pwned`"]
    words += ["-Xcompiler=-DZ=1;touch${IFS}pwned", "-ccbin", "./evil", '-DQ=";touch pwned;"', "-c", "main.cu"]
    entry = {"directory": str(folder / "src"), "file": "main.cu", "arguments": words}
    (folder / "build/compile_commands.json").write_text(json.dumps([entry]))
    given = Options((folder,), defines=("U=$(touch pwned)", "GOOD=1"))
    digest, source = run_locate(store, publish_cuda(store, tree[1], SCALE), given)
    assert source.headers_by_compiler, source.explanation
    for flag in ("-DX=", "-DY=", "-DZ=", "-ccbin", "-DU="):
        assert flag in source.explanation
    assert "-DGOOD=1" in source.compile_command.arguments
    project = project_of(store, digest, tmp_path / "project")
    done = make(project, "recompile")
    assert done.returncode == 0, done.stderr
    assert find_kernel_code((project / "optimized.cubin").read_bytes(), SCALE) == find_kernel_code(
        tree[1], SCALE
    )
    assert list(tmp_path.rglob("pwned")) == []


@pytest.mark.parametrize("name", ["a $(touch pwned)", "`touch pwned`", "a;touch pwned", "a b"])
def test_paths_that_a_shell_would_read_give_no_build(store, tree, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "tree"
    shutil.copytree(tree[0], folder)
    (folder / "src").rename(folder / name)
    words = ["nvcc", "-DWIDTH=4", f"-I{folder}/include", "-c", "main.cu"]
    entry = {"directory": str(folder / name), "file": "main.cu", "arguments": words}
    (folder / "build/compile_commands.json").write_text(json.dumps([entry]))
    digest, _ = run_locate(store, publish_cuda(store, tree[1], SCALE), Options((folder,)))
    project = project_of(store, digest, tmp_path / "project")
    failed = make(project, "recompile")
    assert failed.returncode != 0
    assert "has characters that a project for nvcc does not allow" in failed.stderr
    assert (project / "kernel_variant.cu").read_bytes() == (TREE / "src/kernels/scale.cuh").read_bytes()
    assert list(tmp_path.rglob("pwned")) == []


def test_a_source_without_a_build_is_compiled_as_it_is(store, tmp_path):
    folder = tmp_path / "lone"
    folder.mkdir()
    (folder / "k.cu").write_text("__global__ void lone(int* p) { p[threadIdx.x] *= 2; }\n")
    code = nvcc(folder / "k.cu", tmp_path / "k.cubin")
    options = Options((folder,), compiler=find_cuda_tool("nvcc"))
    digest, source = run_locate(store, publish_cuda(store, code, "_Z4lonePi"), options)
    assert source.outcome is Outcome.FOUND
    project = project_of(store, digest, tmp_path / "project")
    assert make(project, "recompile").returncode == 0
    assert find_kernel_code((project / "optimized.cubin").read_bytes(), "_Z4lonePi") == find_kernel_code(
        code, "_Z4lonePi"
    )
    assert "nvcc -O3` is assumed" in (project / "README.md").read_text()


def test_kernels_of_half_precision_are_rebuilt(store, tmp_path):
    # cuda_fp16.h and cuda_bf16.h include <nv/target>, which is not in the package of nvcc, nor is CUB.
    folder, symbol = tmp_path / "half", "_Z5widenP6__halfP13__nv_bfloat16Pf"
    folder.mkdir()
    (folder / "k.cu").write_text(
        "#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n#include <cub/warp/warp_reduce.cuh>\n"
        "__global__ void widen(__half* a, __nv_bfloat16* b, float* c) {\n"
        "  __shared__ cub::WarpReduce<float>::TempStorage space;\n"
        "  c[threadIdx.x] = cub::WarpReduce<float>(space).Sum(__half2float(*a) + __bfloat162float(*b));\n}\n"
    )
    entry = {"directory": str(folder), "file": "k.cu", "arguments": ["nvcc", "-O3", "-c", "k.cu"]}
    (folder / "compile_commands.json").write_text(json.dumps([entry]))
    code = nvcc(folder / "k.cu", tmp_path / "k.cubin", "-O3")
    digest, source = run_locate(store, publish_cuda(store, code, symbol), Options((folder,)))
    assert source.headers_by_compiler, source.explanation
    copied = {Path(file.path).name for file in source.files}
    assert copied.isdisjoint({"cuda_fp16.h", "target", "warp_reduce.cuh"})  # they stay the compiler's
    project = project_of(store, digest, tmp_path / "project")
    done = make(project, "recompile")
    assert done.returncode == 0, done.stderr
    made = find_kernel_code((project / "optimized.cubin").read_bytes(), symbol)
    assert made is not None
    assert made == find_kernel_code(code, symbol)


def test_a_header_without_a_build_is_compiled_through_the_unit_that_instantiates_it(store, tmp_path):
    folder = tmp_path / "app"
    files = {
        "include/heat/stencil.cuh": '#pragma once\n#include "heat/coeff.cuh"\n#include "tail.cuh"\n'
        "template <typename T> __global__ void stencil(T* x) { x[threadIdx.x] *= COEFFICIENT + TAIL; }\n",
        "include/heat/coeff.cuh": "#define COEFFICIENT 2\n",
        "more/tail.cuh": "#define TAIL 3\n",
        "src/main.cu": '#include <string.h>\n#include "heat/stencil.cuh"\n'
        "template __global__ void stencil<float>(float*);\n",
        "src/other.cu": '#include "heat/stencil.cuh"\ntemplate __global__ void stencil<double>(double*);\n',
        "util/string.h": "#error not this one\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    code = nvcc(folder / "src/main.cu", tmp_path / "k.cubin", f"-I{folder}/include", f"-I{folder}/more")
    digest, source = run_locate(store, publish_cuda(store, code, "_Z7stencilIfEvPT_"), Options((folder,)))
    assert source.outcome is Outcome.FOUND, source.explanation
    assert (
        f"`nvcc -O3 -I{folder}/include -I{folder}/more {folder}/src/main.cu` is assumed" in source.explanation
    )
    local = {str(Path(file.path).relative_to(folder)) for file in source.files}
    assert local == set(files) - {"src/other.cu", "util/string.h"}
    project = project_of(store, digest, tmp_path / "project")
    assert make(project, "recompile").returncode == 0
    made = (project / "optimized.cubin").read_bytes()
    assert find_kernel_code(made, "_Z7stencilIfEvPT_") == find_kernel_code(code, "_Z7stencilIfEvPT_")


def test_what_does_not_preprocess_is_told_by_its_first_error(store, tmp_path):
    (tmp_path / "k.cu").write_text(
        '#warning first\n#include "gone.h"\n__global__ void lone(int* p) { *p = 1; }\n'
    )
    (tmp_path / "was.cu").write_text("__global__ void lone(int* p) { *p = 1; }\n")
    code = nvcc(tmp_path / "was.cu", tmp_path / "k.cubin")
    (tmp_path / "was.cu").unlink()
    options = Options((tmp_path,), compiler=find_cuda_tool("nvcc"))
    _, source = run_locate(store, publish_cuda(store, code, "_Z4lonePi"), options)
    assert "gone.h" in source.explanation
    assert "\n" not in source.explanation
    assert "#warning" not in source.explanation
