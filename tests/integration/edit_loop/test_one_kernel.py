"""A unit with many kernels: the project compiles the captured one alone, to the same instructions."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from made_in_projects import make

if TYPE_CHECKING:
    from pathlib import Path

    from stages import Stages

UNIT = """#include <hip/hip_runtime.h>
__constant__ float factors[4] = {1, 2, 3, 4};
__device__ unsigned launches;

template <int N> __device__ __attribute__((noinline)) float power(float x) {
  float y = 1;
  for (int i = 0; i < N; ++i) y *= x;
  return y + factors[N % 4];
}

template <int N> __global__ void many(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) ++launches;
  if (i < n) x[i] = power<N>(x[i]);
}

namespace {
__global__ void hidden(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = power<3>(x[i]) * 2;
}
}

static __global__ void internal(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = power<2>(x[i]) - 2;
}

template <int N> void run(float* x) {
  many<N><<<4, 64>>>(x, 250);
  if constexpr (N > 0) run<N - 1>(x);
}

int main() {
  float* x = nullptr;
  if (hipMalloc(&x, 1024) != hipSuccess || hipMemset(x, 63, 1024) != hipSuccess) return 2;
  run<20>(x);
  hidden<<<4, 64>>>(x, 250);
  internal<<<4, 64>>>(x, 250);
  return hipDeviceSynchronize() == hipSuccess ? 0 : 1;
}
"""
LARGE = "#pragma once\n#include <hip/hip_runtime.h>\n/*" + "much text\n" * 400_000 + "*/\n"
# what is captured -> a right edit and a wrong one
EDITS = {
    "many<7>": ("y + factors[N % 4]", "factors[N % 4] + y", "factors[N % 3] + y"),
    "hidden": ("* 2;", "* 4 / 2;", "* 3;"),
    "internal": ("- 2;", "+ -2;", "- 3;"),
}


@pytest.fixture
def program() -> str:
    return UNIT


@pytest.fixture
def app(tmp_path: Path, program: str) -> Path:
    """A program of one unit, and its compilation database."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "unit.hip").write_text(program)
    (tree / "large.hpp").write_text(LARGE)
    words = ["hipcc", "-std=c++17", "--offload-arch=gfx90a"]  # hipcc adds -O3
    entry = {"directory": str(tree), "file": "unit.hip", "arguments": [*words, "-c", "unit.hip"]}
    (tree / "compile_commands.json").write_text(json.dumps([entry]))
    subprocess.run([*words, "unit.hip", "-o", "app"], cwd=tree, check=True, capture_output=True)
    return tree / "app"


def count_kernels(code: Path) -> int:
    listed = subprocess.run(["readelf", "-Ws", code], capture_output=True, text=True, check=True)
    return len({line.split()[-1] for line in listed.stdout.splitlines() if line.endswith(".kd")})


@pytest.mark.parametrize("kernel", EDITS)
def test_the_captured_kernel_is_compiled_without_the_others(stages: Stages, app: Path, kernel: str):
    before, right, wrong = EDITS[kernel]
    (capture,) = stages.capture(kernel, app)
    source = stages.run("locate", capture, "--source-dir", app.parent).must().digests[0]
    assert stages.show(source)["unedited"]["one_kernel"] is True
    project = stages.folder / "project"
    stages.run("generate", source, "-o", project).must()
    built = make(stages, project, "recompile")
    assert built.returncode == 0, built.stderr
    assert count_kernels(project / "optimized.hsaco") == 1
    assert "Result: PASS" in make(stages, project, "validate-variant").stderr
    variant = project / "kernel_variant.cpp"
    text = variant.read_text()
    for edit, verdict in ((right, "PASS"), (wrong, "FAIL")):
        assert before in text
        variant.write_text(text.replace(before, edit))
        assert f"Result: {verdict}" in make(stages, project, "recompile", "validate-variant").stderr

    # A unit that lost other kernels and has new ones still compiles; a fault in it is told.
    variant.write_text(text.replace("run<20>", "run<9>") + "\n__global__ void added(int* x) { *x = 1; }\n")
    assert make(stages, project, "recompile").returncode == 0
    assert count_kernels(project / "optimized.hsaco") == 1
    variant.write_text(text + "\nnonsense\n")
    failed = make(stages, project, "recompile")
    assert failed.returncode != 0
    assert "nonsense" in failed.stderr
    assert not (project / "optimized.hsaco").exists()


def test_without_llvms_tools_the_whole_unit_is_compiled(stages: Stages, app: Path, tmp_path: Path):
    (capture,) = stages.capture("many<7>", app)
    source = stages.run("locate", capture, "--source-dir", app.parent).must().digests[0]
    project = stages.folder / "project"
    stages.run("generate", source, "-o", project).must()
    compiler = tmp_path / "hipcc"
    compiler.write_text(
        '#!/bin/sh\n[ "$1" = --print-prog-name=clang ] && { echo /nowhere/clang; exit; }\nexec hipcc "$@"\n'
    )
    compiler.chmod(0o755)
    built = make(stages, project, "recompile", f"HIPCC={compiler}")
    assert built.returncode == 0, built.stderr
    assert "there is no clang++ in /nowhere: the whole unit is compiled" in built.stderr
    assert count_kernels(project / "optimized.hsaco") > 20
    assert "Result: PASS" in make(stages, project, "validate-variant").stderr
    absent = make(stages, project, "recompile", f"HIPCC={tmp_path}/absent")
    assert absent.returncode != 0
    assert f"there is no compiler {tmp_path}/absent: make recompile HIPCC=PATH" in absent.stderr
    assert "whole unit" not in absent.stderr


SHARED = """#include "large.hpp"
template <int N> __device__ __attribute__((noinline)) float turn(float x) {
  __shared__ float part[64 + N];
  part[threadIdx.x] = x;
  __syncthreads();
  return part[63 - threadIdx.x];
}
__global__ void one(float* x) { x[threadIdx.x] = turn<1>(x[threadIdx.x]); }
__global__ void both(float* x) { x[threadIdx.x] = turn<2>(turn<1>(x[threadIdx.x])); }
__global__ void other(float* x) { x[threadIdx.x] = turn<2>(x[threadIdx.x]); }
template <int N> __global__ void add(float* x) { x[threadIdx.x] += N; }

int main() {
  float* x = nullptr;
  if (hipMalloc(&x, 256) != hipSuccess || hipMemset(x, 63, 256) != hipSuccess) return 2;
  add<1><<<1, 64>>>(x);
  add<2><<<1, 64>>>(x);
  one<<<1, 64>>>(x);
  both<<<1, 64>>>(x);
  other<<<1, 64>>>(x);
  return hipDeviceSynchronize() == hipSuccess ? 0 : 1;
}
"""


@pytest.mark.parametrize("program", [SHARED])
def test_a_kernel_whose_instructions_depend_on_the_others_is_compiled_with_them(stages: Stages, app: Path):
    # The function that it calls finds its LDS in a table, which has a line for each kernel.
    (capture,) = stages.capture("other", app)
    source = stages.run("locate", capture, "--source-dir", app.parent).must().digests[0]
    found = stages.show(source)
    assert found["precompiled"] is not None
    assert found["unedited"]["same_instructions"] is True
    assert found["unedited"]["one_kernel"] is False
    assert found["unedited"]["whole_unit_because"] == "without its other kernels it has other instructions"
    project = stages.folder / "project"
    stages.run("generate", source, "-o", project).must()
    assert make(stages, project, "recompile").returncode == 0
    # Its headers are parsed once all the same.
    assert (project / "precompiled.pch").exists()
    assert count_kernels(project / "optimized.hsaco") == 5
    assert "Result: PASS" in make(stages, project, "validate-variant").stderr
