"""Sources of CUDA kernels that only the build or the compiler leads to: the real nvcc."""

from __future__ import annotations

import json

import pytest
from ambiguous_kernels import AMBIGUOUS, SYMBOLS, marked_line
from cuda_captures import nvcc, publish_cuda, why_no_nvcc

from kerncap_stages.manifests.source import Outcome
from kerncap_stages.rocm_root.enter import MARKER
from kerncap_stages.source.options import Options
from kerncap_stages.stages.locate import run_locate
from kerncap_stages.store import Store

# In the project's own root, nvcc is part of the environment.
pytestmark = [
    pytest.mark.nvcc,
    pytest.mark.skipif(bool(why_no_nvcc()) and not MARKER.exists(), reason=why_no_nvcc()),
]

SOURCE = (
    """#define X(name, by) __global__ void from_##name(float* x) { x[threadIdx.x] += by; }
#include "list.def"
"""
    + AMBIGUOUS
)


@pytest.fixture
def store(tmp_path):
    return Store.open(tmp_path / "store")


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
