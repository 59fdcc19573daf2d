"""Sources of CUDA kernels that only the build or the compiler leads to: the real nvcc."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from ambiguous_kernels import AMBIGUOUS, SYMBOLS, marked_line
from cuda_captures import nvcc, publish_cuda
from cuda_projects import NEEDS_NVCC, make, project_of

from kerncap_stages.code.cubin import find_kernel_code
from kerncap_stages.compilers.cuda_tools import find_cuda_tool
from kerncap_stages.generate.engine import run_generate
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options
from kerncap_stages.manifests.source import Outcome
from kerncap_stages.project.checkout import check_out

pytestmark = NEEDS_NVCC

SOURCE = (
    """#define X(name, by) __global__ void from_##name(float* x) { x[threadIdx.x] += by; }
#include "list.def"
"""
    + AMBIGUOUS
)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    tree = tmp_path_factory.mktemp("tree")
    (tree / "list.def").write_text("X(a, 1)\nX(b, 2)\n")
    (tree / "k.cu").write_text(SOURCE)
    entry = {"directory": str(tree), "file": "k.cu", "arguments": ["nvcc", "-O3", "-c", "k.cu"]}
    (tree / "compile_commands.json").write_text(json.dumps([entry]))
    return tree, nvcc(tree / "k.cu", tree / "k.cubin")


@pytest.mark.parametrize("mark", SYMBOLS)
def test_of_several_definitions_the_compiler_tells_the_line(store, built, mark):
    tree, code = built
    _, source = run_locate(store, publish_cuda(store, code, SYMBOLS[mark]), Options((tree,)))
    assert source.outcome is Outcome.FOUND, source.explanation
    assert (source.definition.path, source.definition.line) == (str(tree / "k.cu"), marked_line(SOURCE, mark))


def test_a_kernel_that_a_list_in_another_file_makes_is_found_there(store, built):
    tree, code = built
    _, source = run_locate(store, publish_cuda(store, code, "_Z6from_bPf"), Options((tree,)))
    assert source.outcome is Outcome.FOUND, source.explanation
    assert (source.definition.path, source.definition.line) == (str(tree / "list.def"), 2)


@pytest.mark.parametrize("flag", ["-G", "-lineinfo"])
def test_a_cubin_with_debug_information_tells_its_kernels_line(store, built, tmp_path, flag):
    tree, _ = built
    code = nvcc(tree / "k.cu", tmp_path / "debug.cubin", flag)
    _, source = run_locate(store, publish_cuda(store, code, "_Z4overPd"), Options((tree,)))
    assert source.definition.line == marked_line(SOURCE, "over(double*)")
    assert source.definition.via_line_table


def test_of_two_checkouts_the_named_one_is_taken_with_its_build(store, tmp_path):
    trees = [tmp_path / name for name in ("built", "edited")]
    for tree in trees:
        (tree / "src").mkdir(parents=True)
        (tree / "src/k.cu").write_text("__global__ void k(float* x) { *x += WIDTH; }\n")
        words = ["nvcc", "-O3", "-lineinfo", "-DWIDTH=4", "-c", "src/k.cu"]
        entry = {"directory": str(tree), "file": "src/k.cu", "arguments": words}
        (tree / "compile_commands.json").write_text(json.dumps([entry]))
    code = nvcc(trees[0] / "src/k.cu", tmp_path / "k.cubin", "-lineinfo", "-DWIDTH=4")
    _, source = run_locate(store, publish_cuda(store, code, "_Z1kPf"), Options((trees[1],)))
    assert source.definition.path == str(trees[1] / "src/k.cu")
    assert source.compile_command.translation_unit == str(trees[1] / "src/k.cu")
    assert source.compile_command.database == str(trees[1] / "compile_commands.json")
    assert source.explanation is None


def test_a_checkout_without_a_build_is_told_which_one_the_commands_are_of(store, tmp_path):
    built, copy = (tmp_path / name / "src/k.cu" for name in ("built", "copy"))
    for source_file in (built, copy):
        source_file.parent.mkdir(parents=True)
        source_file.write_text("__global__ void k(float* x) { *x += WIDTH; }\n")
    words = ["nvcc", "-lineinfo", "-DWIDTH=4", "-c", str(built)]
    database = tmp_path / "built/compile_commands.json"
    entry = {"directory": str(database.parent), "file": str(built), "arguments": words}
    database.write_text(json.dumps([entry]))
    code = nvcc(built, tmp_path / "k.cubin", "-lineinfo", "-DWIDTH=4")
    options = Options((copy.parents[1],), compile_commands=database)
    _, source = run_locate(store, publish_cuda(store, code, "_Z1kPf"), options)
    assert source.definition.path == str(copy)
    command = source.compile_command  # assumed, if any, and not the other checkout's
    assert command is None or (command.translation_unit, command.database) == (str(copy), None)
    assert f"it compiles {built}: give that source tree with --source-dir, or a build of {copy.parent}" in (
        source.explanation
    )


def test_another_programs_file_of_the_same_name_is_not_taken_for_a_macros_kernel(store, tmp_path):
    library, app = (tmp_path / name / "main.cu" for name in ("lib", "app"))
    macros = "#define CAT(a, b) a##b\n#define MK(D) CAT(__glo, D)\n"
    texts = {library: macros + "MK(bal__) void k(float* x) { *x = 1; }\n", app: "\n\n\nint main() {}\n"}
    for source_file, text in texts.items():
        source_file.parent.mkdir()
        source_file.write_text(text)
        entry = {
            "directory": str(source_file.parent),
            "file": "main.cu",
            "arguments": ["nvcc", "-c", "main.cu"],
        }
        (source_file.parent / "compile_commands.json").write_text(json.dumps([entry]))
    code = nvcc(library, tmp_path / "k.cubin", "-lineinfo")
    capture = publish_cuda(store, code, "_Z1kPf")
    _, source = run_locate(store, capture, Options((app.parent,)))
    assert (source.definition.path, source.definition.line) == (str(library), 3)
    library.unlink()
    _, source = run_locate(store, capture, Options((app.parent,)))
    assert source.explanation is not None
    assert f"{library}, from which it was built, is missing; {app} has the same name" in source.explanation


def test_a_kernel_in_what_a_unit_includes_from_elsewhere_is_found(store, tmp_path):
    folder = tmp_path / "heat"
    files = {
        "src/main.cu": '#include "heat/stencil.cuh"\n__global__ void other() {}\n'
        "void run(float* x) { step<<<1, 1>>>(x); }\n",
        "include/heat/stencil.cuh": '#pragma once\n#include "heat/coeff.cuh"\n'
        "__global__ void step(float* x) { x[threadIdx.x] *= COEFF; }\n",
        "include/heat/coeff.cuh": "#pragma once\n#define COEFF 2\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    build = folder / "build"
    build.mkdir()
    words = ["nvcc", "-O3", "-I../include", "-c", "../src/main.cu"]
    database = build / "compile_commands.json"
    database.write_text(json.dumps([{"directory": str(build), "file": "../src/main.cu", "arguments": words}]))
    code = nvcc(folder / "src/main.cu", tmp_path / "k.cubin", f"-I{folder}/include")
    options = Options((folder / "src",), compile_commands=database)
    _, source = run_locate(store, publish_cuda(store, code, "_Z4stepPf"), options)
    assert source.outcome is Outcome.FOUND, source.explanation
    assert source.definition.path == str(folder / "include/heat/stencil.cuh")
    assert source.compile_command.translation_unit == str(folder / "src/main.cu")
    assert {os.path.relpath(file.path, folder) for file in source.files} == set(files)


def test_where_there_is_no_nvcc_that_is_said(store, built, monkeypatch, tmp_path):
    _, code = built
    (tmp_path / "src").mkdir()
    (tmp_path / "src/k.cu").write_text(SOURCE.replace('#include "list.def"', ""))
    capture = publish_cuda(store, code, "_Z4overPd")
    monkeypatch.setattr("kerncap_stages.compilers.nvcc.find_cuda_tool", lambda _name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    _, source = run_locate(store, capture, Options((tmp_path / "src",)))
    assert source.explanation.startswith("there is no compiler nvcc")
    assert "nvidia-cuda-nvcc nvidia-cuda-cccl" in source.explanation


def test_a_kernel_of_a_librarys_header_is_compiled_by_the_unit_that_includes_it(store, tmp_path, monkeypatch):
    """As CUB's: the compiler looks into its folder without being told."""
    library = tmp_path / "library"
    (library / "lib").mkdir(parents=True)
    (library / "lib/k.cuh").write_text(
        "#pragma once\ntemplate <int N> __global__ void k(float* x) { x[threadIdx.x] *= N; }\n"
    )
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", str(library))
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "main.cu").write_text("#include <lib/k.cuh>\nvoid run(float* x) { k<3><<<1, 1>>>(x); }\n")
    entry = {"directory": str(tree), "file": "main.cu", "arguments": ["nvcc", "-O3", "-c", "main.cu"]}
    (tree / "compile_commands.json").write_text(json.dumps([entry]))
    code = nvcc(tree / "main.cu", tmp_path / "k.cubin")
    capture = publish_cuda(store, code, "_Z1kILi3EEvPf")
    digest, source = run_locate(store, capture, Options((tree, library)))
    assert source.definition.path == str(library / "lib/k.cuh")
    assert source.compile_command.translation_unit == str(tree / "main.cu")
    # The edit is what the project compiles, and not the library's own file.
    project = tmp_path / "project"
    made, reproducer = run_generate(store, digest)
    check_out(store, made, reproducer, project, force=False)
    variant = project / "kernel_variant.cu"
    variant.write_text(variant.read_text().replace("*= N", "*= N + 1"))
    done = subprocess.run(["make", "-C", project, "recompile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rebuilt = find_kernel_code((project / "optimized.cubin").read_bytes(), "_Z1kILi3EEvPf")
    assert rebuilt != find_kernel_code(code, "_Z1kILi3EEvPf")


def test_where_no_unit_makes_the_kernel_it_is_said_and_nothing_is_built(store, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "k.cuh").write_text("template <int N> __global__ void k(float* x) { *x = N; }\n")
    for number in (1, 2):
        (tree / f"{number}.cu").write_text(
            f'#include "k.cuh"\ntemplate __global__ void k<{number}>(float*);\n'
        )
    entries = [
        {"directory": str(tree), "file": f"{number}.cu", "arguments": ["nvcc", "-c", f"{number}.cu"]}
        for number in (1, 2)
    ]
    (tree / "compile_commands.json").write_text(json.dumps(entries))
    (tmp_path / "3.cu").write_text('#include "tree/k.cuh"\ntemplate __global__ void k<3>(float*);\n')
    code = nvcc(tmp_path / "3.cu", tmp_path / "3.cubin")
    options = Options((tree,), compiler=find_cuda_tool("nvcc"))
    digest, source = run_locate(store, publish_cuda(store, code, "_Z1kILi3EEvPf"), options)
    assert source.outcome is Outcome.FOUND
    assert "none of the 2 units that include the definition makes this kernel" in source.explanation
    assert "is assumed, which does not make this kernel" in source.explanation
    made, reproducer = run_generate(store, digest)
    check_out(store, made, reproducer, tmp_path / "project", force=False)
    words = ["make", "-C", tmp_path / "project", "recompile"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "optimized.cubin has no kernel _Z1kILi3EEvPf" in done.stderr
    assert not (tmp_path / "project/optimized.cubin").exists()


@pytest.mark.parametrize("flag", ["-O3", "--use_fast_math"])
def test_the_command_that_is_assumed_is_told(store, tmp_path, flag):
    (tmp_path / "k.cu").write_text("__global__ void k(float* x) { *x = sinf(*x) / x[1]; }\n")
    code = nvcc(tmp_path / "k.cu", tmp_path / "k.cubin", flag)
    _, source = run_locate(store, publish_cuda(store, code, "_Z1kPf"), Options((tmp_path,)))
    differs = ", which does not give the captured instructions" if flag != "-O3" else ""
    assert f"`nvcc -O3 {tmp_path}/k.cu` is assumed{differs};" in source.explanation


def test_headers_beside_one_in_a_system_folder_are_found_from_the_project(store, tmp_path):
    """GCC takes such a file to lie where a link leads, if that path is shorter."""
    tree, long = tmp_path / "tree", "long" * 50
    library = tree / "include" / long / "library"
    library.mkdir(parents=True)
    (library / "twice.cuh").write_text(
        "#pragma once\n__device__ inline float twice(float x) { return 2 * x; }\n"
    )
    (library / "kernels.cuh").write_text(
        '#include "twice.cuh"\n'
        "template <typename T> __global__ void scale(T* x) { x[threadIdx.x] = twice(x[threadIdx.x]); }\n"
    )
    unit = f"#include <{long}/library/kernels.cuh>\ntemplate __global__ void scale<float>(float*);\n"
    (tree / "k.cu").write_text(unit)
    flags = ("-O3", "-isystem", str(tree / "include"))
    entry = {"directory": str(tree), "file": "k.cu", "arguments": ["nvcc", *flags, "-c", "k.cu"]}
    (tree / "compile_commands.json").write_text(json.dumps([entry]))
    capture = publish_cuda(store, nvcc(tree / "k.cu", tree / "k.cubin", *flags), "_Z5scaleIfEvPT_")
    located, source = run_locate(store, capture, Options((tree,)))
    assert source.definition.path == str(library / "kernels.cuh")
    project = project_of(store, located, tmp_path / "p")
    variant = project / "kernel_variant.cu"
    variant.write_text(variant.read_text().replace("= twice(", "= 1 + twice("))
    done = make(project, "recompile")
    assert done.returncode == 0, done.stderr
