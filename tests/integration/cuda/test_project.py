"""From a captured CUDA kernel to a project that rebuilds it: the real nvcc, a made-up snapshot."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from cuda_captures import ARCH, nvcc, publish_cuda, why_no_nvcc

from kerncap_stages.code.cubin import find_kernel_code
from kerncap_stages.compilers.cuda_tools import find_cuda_tool
from kerncap_stages.generate.engine import run_generate
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options
from kerncap_stages.manifests.kernel import Language
from kerncap_stages.manifests.source import Outcome
from kerncap_stages.project.checkout import check_out
from kerncap_stages.rocm_root.enter import MARKER
from kerncap_stages.store import Store

TREE = Path(__file__).parents[2] / "programs/cuda_tree"
SCALE = "_ZN4rows5scaleIfEEvPT_S1_5Shape"
PLAIN = "_Z5plainPfi"
INDIRECT = "_Z8indirectPi"

# In the project's own root, nvcc is part of the environment.
pytestmark = [
    pytest.mark.nvcc,
    pytest.mark.skipif(bool(why_no_nvcc()) and not MARKER.exists(), reason=why_no_nvcc()),
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A source tree as CMake leaves it, and the cubin of its unit."""
    folder = tmp_path_factory.mktemp("tree") / "app"
    shutil.copytree(TREE, folder)
    (folder / "build").mkdir()
    (folder / "build/includes_CUDA.rsp").write_text(f'-I"{folder}/include"\n')
    command = (
        "ccache nvcc -forward-unknown-to-host-compiler --options-file includes_CUDA.rsp -DWIDTH=4 "
        '-DNAME=\\"a\\ b\\" -O3 -std=c++17 --generate-code=arch=compute_90,code=[compute_90,sm_90] '
        "-Xcompiler=-fPIC -x cu -c ../src/main.cu -o main.o -MD -MT main.o -MF main.o.d"
    )
    entry = {"directory": str(folder / "build"), "file": "../src/main.cu", "command": command}
    (folder / "build/compile_commands.json").write_text(json.dumps([entry]))
    code = nvcc(
        folder / "src/main.cu", folder.parent / "main.cubin", "-DWIDTH=4", f"-I{folder}/include", "-std=c++17"
    )
    return folder, code


@pytest.fixture
def store(tmp_path):
    return Store.open(tmp_path / "store")


def project_of(store, source, folder):
    made, reproducer = run_generate(store, source)
    check_out(store, made, reproducer, folder, force=False)
    return folder


def make(folder, *targets):
    return subprocess.run(["make", "-C", folder, *targets], capture_output=True, text=True, check=False)


def hidden_symbol(code):
    from kerncap_stages.code.cubin import read_cubin

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


def test_a_kernel_without_source_is_edited_as_ptx(store, tree, tmp_path):
    folder, code = tree
    cache = tmp_path / "cache"
    for width in (2, 4):  # two of the same name: the one that makes the captured instructions
        (cache / str(width)).mkdir(parents=True)
        flags = (f"-DWIDTH={width}", f"-I{folder}/include", "-std=c++17", "-ptx")
        nvcc(folder / "src/main.cu", cache / f"{width}/main.ptx", *flags)
    capture = publish_cuda(store, code, SCALE)
    digest, source = run_locate(store, capture, Options((cache,)))
    assert source.outcome is Outcome.FOUND, source.explanation
    assert source.language is Language.ASSEMBLY
    assert source.definition.path == str(cache / "4/main.ptx")
    project = project_of(store, digest, tmp_path / "project")
    variant = project / "kernel_variant.ptx"
    assert variant.read_bytes() == (cache / "4/main.ptx").read_bytes()
    assert make(project, "assemble").returncode == 0
    assert find_kernel_code((project / "optimized.cubin").read_bytes(), SCALE) == find_kernel_code(
        code, SCALE
    )
    text = variant.read_text()
    variant.write_text(
        text.replace("mul.rn.f32", "add.rn.f32")
        if "mul.rn.f32" in text
        else text.replace("mul.f32", "add.f32")
    )
    assert make(project, "assemble").returncode == 0
    assert find_kernel_code((project / "optimized.cubin").read_bytes(), SCALE) != find_kernel_code(
        code, SCALE
    )
    variant.write_text("rubbish\n")
    failed = make(project, "assemble")
    assert failed.returncode != 0
    assert "kernel_variant.ptx" in failed.stderr
    assert not (project / "optimized.cubin").exists()


def test_without_source_and_ptx_the_project_says_what_to_do(store, tree, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    digest, source = run_locate(store, publish_cuda(store, tree[1], SCALE), Options((empty,)))
    assert source.outcome is Outcome.NOT_FOUND
    assert "no PTX" in source.explanation
    made, reproducer = run_generate(store, digest)
    assert not reproducer.can_recompile
    check_out(store, made, reproducer, tmp_path / "project", force=False)
    failed = make(tmp_path / "project", "recompile")
    assert failed.returncode != 0
    assert "PTX" in "".join(reproducer.missing)


def test_machine_code_alone_is_there_to_be_read(store, tree, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    digest, _ = run_locate(store, publish_cuda(store, tree[1], SCALE), Options((empty,)))
    project = project_of(store, digest, tmp_path / "project")
    listing = (project / "kernel.sass").read_text()
    assert f".text.{SCALE}:" in listing
    assert "STG.E" in listing  # it stores
    assert f".text.{PLAIN}:" not in listing
    assert "`kernel.sass` shows the kernel's machine code" in (project / "README.md").read_text()


def test_the_ptx_in_an_object_file_or_a_program_is_edited(store, tree, tmp_path):
    folder, code = tree
    both = "-gencode=arch=compute_90,code=[compute_90,sm_90]"
    words = ["-DWIDTH=4", f"-I{folder}/include", "-std=c++17", both, "-c", folder / "src/main.cu"]
    made = [find_cuda_tool("nvcc"), *words, "-o", tmp_path / "main.o"]
    subprocess.run(made, check=True, capture_output=True)
    _, source = run_locate(store, publish_cuda(store, code, SCALE), Options((tmp_path / "main.o",)))
    assert source.language is Language.ASSEMBLY, source.explanation
    assert source.definition.path.startswith(f"{tmp_path}/main.o:")
    assert source.explanation.endswith(
        "the kernel's PTX can be edited"
    )  # this ptxas makes the captured instructions


def test_line_information_tells_the_files_and_holds_the_ptx(store, tree, tmp_path):
    folder, _ = tree
    flags = ("-DWIDTH=4", f"-I{folder}/include", "-std=c++17", "-lineinfo")
    code = nvcc(folder / "src/main.cu", tmp_path / "main.cubin", *flags)
    empty = tmp_path / "empty"
    empty.mkdir()
    away = folder.with_name("away")
    folder.rename(away)
    try:
        digest, source = run_locate(store, publish_cuda(store, code, SCALE), Options((empty,)))
    finally:
        away.rename(folder)
    assert source.outcome is Outcome.FOUND
    assert source.language is Language.ASSEMBLY
    assert f"was compiled from {folder}/src/" in source.explanation
    project = project_of(store, digest, tmp_path / "project")
    assert make(project, "assemble").returncode == 0
    assert find_kernel_code((project / "optimized.cubin").read_bytes(), SCALE) == find_kernel_code(
        code, SCALE
    )
    _, source = run_locate(store, publish_cuda(store, code, SCALE), Options((empty,)), fresh=True)
    assert source.definition.path == str(folder / "src/kernels/scale.cuh")


def test_without_line_information_the_flag_that_gives_it_is_named(store, tree, tmp_path):
    (tmp_path / "empty").mkdir()
    _, source = run_locate(store, publish_cuda(store, tree[1], SCALE), Options((tmp_path / "empty",)))
    assert "build the program with -lineinfo" in source.explanation


@pytest.fixture
def separate(tmp_path):
    """A unit that was compiled to be linked, and what the device linker made of it alone."""
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "k.cu").write_text(
        "__device__ __noinline__ int twice(int x) { return 2 * x; }\n"
        "__device__ int (*table[1])(int) = {twice};\n"
        "__global__ void indirect(int* p) { p[threadIdx.x] = table[0](p[threadIdx.x]); }\n"
    )
    entry = {"directory": str(folder), "file": "k.cu", "arguments": ["nvcc", "-O3", "-dc", "k.cu"]}
    (folder / "compile_commands.json").write_text(json.dumps([entry]))
    part, code = tmp_path / "part.cubin", tmp_path / "k.cubin"
    nvcc(folder / "k.cu", part, "-O3", "-rdc=true")
    words = [find_cuda_tool("nvcc"), "-dlink", "-cubin", f"-arch={ARCH}", "-o", code, part]
    subprocess.run(words, check=True, capture_output=True)
    return folder, code.read_bytes()


def test_separate_compilation_is_repeated_and_linked(store, separate, tmp_path):
    folder, code = separate
    digest, source = run_locate(store, publish_cuda(store, code, INDIRECT), Options((folder,)))
    assert "-rdc=true" in source.compile_command.arguments
    project = project_of(store, digest, tmp_path / "project")
    assert make(project, "recompile").returncode == 0
    made = (project / "optimized.cubin").read_bytes()
    assert find_kernel_code(made, INDIRECT) == find_kernel_code(code, INDIRECT)
    assert b".text._Z5twicei" in made  # a function of its own, that has an address
    assert not (project / "optimized.part.cubin").exists()


def test_device_code_of_other_units_is_named_where_it_is_missing(store, separate, tmp_path):
    folder, code = separate
    digest, source = run_locate(store, publish_cuda(store, code, INDIRECT), Options((folder,)))
    assert "device code of other units is not linked in" in source.explanation
    project = project_of(store, digest, tmp_path / "project")
    variant = project / "kernel_variant.cu"
    text = "extern __device__ int elsewhere(int);\n" + variant.read_text()
    variant.write_text(text.replace("table[0](p", "elsewhere(p"))
    failed = make(project, "recompile")
    assert failed.returncode != 0
    assert "Undefined reference to '_Z9elsewherei'" in failed.stderr + failed.stdout
    assert not (project / "optimized.cubin").exists()
