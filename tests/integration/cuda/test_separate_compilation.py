"""Projects of units that were compiled to be linked: nvcc's relocatable device code."""

from __future__ import annotations

import json
import subprocess

import pytest
from cuda_captures import ARCH, nvcc, publish_cuda
from cuda_projects import NEEDS_NVCC, make, project_of

from kerncap_stages.code.cubin import find_kernel_code
from kerncap_stages.compilers.cuda_tools import find_cuda_tool
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options

INDIRECT = "_Z8indirectPi"

pytestmark = NEEDS_NVCC


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
