"""A unit with many kernels: the project compiles the captured one alone, to the same instructions."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from cuda_captures import nvcc, publish_cuda
from cuda_projects import NEEDS_NVCC, make, project_of

from kerncap_stages.code.constant_addresses import has_same_code
from kerncap_stages.code.cubin import find_kernel_code, read_cubin
from kerncap_stages.compilers.cuda_tools import find_cuda_tool
from kerncap_stages.compilers.nvcc_script import name_as_alone
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options

pytestmark = NEEDS_NVCC

UNIT = """
__constant__ float factors[4] = {1, 2, 3, 4};
static __device__ float shift;

template <int N> __device__ __noinline__ float power(float x) {
  float y = 1;
  for (int i = 0; i < N; ++i) y *= x;
  return y + factors[N % 4];
}

template <int N> __global__ void many(float* x, int n) {
  __shared__ float tile[64];
  extern __shared__ float more[];
  tile[threadIdx.x] = more[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < n) x[threadIdx.x] = power<N>(tile[63 - threadIdx.x] / more[1]) + sqrtf(x[n]);
}

namespace {
__global__ void hidden(float* x) { x[threadIdx.x] = power<3>(x[threadIdx.x]) * 2; }
}

static __global__ void internal(float* x) { x[threadIdx.x] = power<2>(x[threadIdx.x]) - sqrtf(x[1]); }
static __global__ void internal_too(float* x) { x[threadIdx.x] = power<1>(x[threadIdx.x]); }
__global__ void shifted(float* x) { x[0] += shift; }
__global__ void says(float* x) { printf("%f", x[0]); }

template <int N> void run(float* x) {
  many<N><<<1, 64, 256>>>(x, 64);
  if constexpr (N > 0) run<N - 1>(x);
}

void run_all(float* x) {
  cudaMemcpyToSymbol(shift, x, 4);
  run<5>(x);
  hidden<<<1, 64>>>(x);
  internal<<<1, 64>>>(x);
  internal_too<<<1, 64>>>(x);
}
"""
KERNELS = ("_Z4manyILi3EEvPfi", "hidden", "_Z8internalPf", "_Z7shiftedPf")


@pytest.fixture
def app(tmp_path):
    """Make a source tree of one unit, with the flags of a test, and return it with the unit's cubin."""

    def make_app(*flags):
        folder = tmp_path / "app"
        folder.mkdir()
        (folder / "unit.cu").write_text(UNIT)
        words = ["nvcc", "-std=c++17", *flags]
        entry = {"directory": str(folder), "file": "unit.cu", "arguments": [*words, "-c", "unit.cu"]}
        (folder / "compile_commands.json").write_text(json.dumps([entry]))
        return folder, nvcc(folder / "unit.cu", tmp_path / "unit.cubin", *words[1:])

    return make_app


def locate(store, app, kernel):
    folder, code = app
    symbol = next(name for name in read_cubin(code).kernels if kernel == name or kernel == "hidden" in name)
    return (*run_locate(store, publish_cuda(store, code, symbol), Options((folder,))), symbol)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_captured_kernel_is_compiled_without_the_others(store, app, tmp_path, kernel):
    folder, code = made = app()
    digest, source, symbol = locate(store, made, kernel)
    assert source.unedited.one_kernel, source.unedited
    project = project_of(store, digest, tmp_path / "project")
    done = make(project, "recompile")
    assert done.returncode == 0, done.stderr
    assert "whole unit" not in done.stderr
    built = (project / "optimized.cubin").read_bytes()
    assert len(read_cubin(built).kernels) == 1
    assert find_kernel_code(built, symbol) == find_kernel_code(code, symbol)
    for variable in (b"\0factors\0", b"\0shift\0"):  # a replay finds them by their names
        assert variable in built

    # An edit may use what the kernel did not use before: what the program writes is no constant.
    variant = project / "kernel_variant.cu"
    text = variant.read_text()
    edited = text.replace("return y +", "return y + shift +").replace("+= shift", "+= shift * factors[1]")
    variant.write_text(edited)
    assert make(project, "recompile").returncode == 0
    ours = (project / "optimized.cubin").read_bytes()
    (folder / "unit.cu").write_text(variant.read_text())
    whole = nvcc(folder / "unit.cu", tmp_path / "edited.cubin", "-std=c++17")
    assert len(find_kernel_code(ours, symbol)) == len(find_kernel_code(whole, symbol))
    assert find_kernel_code(ours, symbol) != find_kernel_code(code, symbol)
    variant.write_text(text + "\nnonsense\n")
    failed = make(project, "recompile")
    assert failed.returncode != 0
    assert "nonsense" in failed.stderr
    assert not (project / "optimized.cubin").exists()


@pytest.mark.parametrize(
    "flags",
    [
        ["-use_fast_math", "-maxrregcount=24"],
        ["-prec-div=false", "-fmad=false"],
        ["-ftz=true", "-prec-sqrt=false", "-Xptxas=-O1", "-lineinfo"],
    ],
)
def test_flags_of_the_build_mean_the_same(store, app, flags):
    _, source, _ = locate(store, app(*flags), "_Z4manyILi3EEvPfi")
    assert source.unedited.one_kernel, source.unedited


def test_addresses_may_be_at_other_places_of_a_constant_bank(store, app, tmp_path):
    # What printf needs is there, beside what other kernels need.
    digest, source, symbol = locate(store, made := app(), "_Z4saysPf")
    assert source.unedited.one_kernel, source.unedited
    project = project_of(store, digest, tmp_path / "project")
    assert make(project, "recompile").returncode == 0
    built = (project / "optimized.cubin").read_bytes()
    assert len(read_cubin(built).kernels) == 1
    assert find_kernel_code(built, symbol) != find_kernel_code(made[1], symbol)
    assert has_same_code(built, symbol, made[1], symbol)


def test_a_kernel_with_other_instructions_alone_is_compiled_with_the_others(
    store, app, tmp_path, monkeypatch
):
    monkeypatch.setattr("kerncap_stages.locate.unedited.has_same_code", lambda *_: False)
    digest, source, symbol = locate(store, made := app(), "_Z4saysPf")
    assert source.unedited.same_instructions
    assert not source.unedited.one_kernel
    assert source.unedited.whole_unit_because == "without its other kernels it has other instructions"
    project = project_of(store, digest, tmp_path / "project")
    assert source.unedited.whole_unit_because in (project / "README.md").read_text()
    assert make(project, "recompile").returncode == 0
    built = (project / "optimized.cubin").read_bytes()
    assert find_kernel_code(built, symbol) == find_kernel_code(made[1], symbol)


@pytest.mark.parametrize("flag", ["-G", "-rdc=true"])
def test_a_unit_for_the_debugger_or_to_be_linked_is_compiled_whole(store, app, tmp_path, flag):
    digest, source, _ = locate(store, app(flag), "_Z4manyILi3EEvPfi")
    assert not source.unedited.one_kernel
    if flag == "-G":
        assert "-G" in source.unedited.whole_unit_because
    project = project_of(store, digest, tmp_path / "project")
    assert not (project / "compile_kernel.py").exists()


@pytest.mark.parametrize("missing", ["nvlink", "libnvvm.so"])
def test_without_a_tool_the_whole_unit_is_compiled(store, app, tmp_path, missing):
    made = app()
    digest, _, symbol = locate(store, made, "_Z4manyILi3EEvPfi")
    project = project_of(store, digest, tmp_path / "project")
    toolkit = Path(os.path.realpath(find_cuda_tool("nvcc"))).parents[1]
    without = tmp_path / "toolkit"
    shutil.copytree(
        toolkit, without, symlinks=False, copy_function=os.symlink,
        ignore=lambda _, names: [name for name in names if name.startswith(missing)],
    )  # fmt: skip
    (without / "bin/nvcc").unlink()
    shutil.copy(toolkit / "bin/nvcc", without / "bin/nvcc")  # it looks for the others beside itself
    done = make(project, "recompile", f"NVCC={without}/bin/nvcc")
    assert done.returncode == 0, done.stderr
    assert f"there is no {missing} in {without}" in done.stderr
    assert "the whole unit is compiled" in done.stderr
    built = (project / "optimized.cubin").read_bytes()
    assert len(read_cubin(built).kernels) > 5
    assert find_kernel_code(built, symbol) == find_kernel_code(made[1], symbol)


def test_names_lose_the_mark_of_their_unit():
    mark = "__nv_static_19__90f15693_4_m_cu_cc_"
    text = f".entry {mark}_Z1kPf(\n.param .u64 {mark}_Z1kPf_param_0)\n.entry {mark}x_{mark}y()\n"
    text += ".weak .entry other()\n"
    assert name_as_alone(text) == (
        f".visible .entry _Z1kPf(\n.param .u64 _Z1kPf_param_0)\n.visible .entry x_{mark}y()\n"
        ".weak .entry other()\n"
    )
