"""Kernels whose line only the compiler knows: made by macros, specialised, overloaded, behind conditions."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest
from ambiguous_kernels import AMBIGUOUS, SYMBOLS, marked_line
from made_up import device_code, make, publish

from kerncap_stages.compilers.amd_code import read_kernel_code
from kerncap_stages.generate.engine import run_generate
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options
from kerncap_stages.manifests.source import Outcome
from kerncap_stages.project.checkout import check_out
from kerncap_stages.store import Store

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("hipcc") is None, reason="needs hipcc: run it in the ROCm root")

SOURCE = (
    """#include <hip/hip_runtime.h>
#define LIST(X) X(first, 2) X(second, 3)
#define DEFINE(name, by) __global__ void name##_kernel(float* x) { x[threadIdx.x] *= by; }
LIST(DEFINE)                                                              // first_kernel, second_kernel
#define X(name, by) __global__ void from_##name(float* x) { x[threadIdx.x] += by; }
#include "list.def"
#define HEAD(name) extern "C" __global__ void name
HEAD(headed)(float* x) { x[threadIdx.x] = 1; }                            // headed
#define WHOLE(name, ...) __global__ void name(__VA_ARGS__)
WHOLE(whole, float* x) { x[threadIdx.x] = 2; }                            // whole
"""
    + AMBIGUOUS
    + """\
template <typename T> requires (sizeof(T) == 4) __global__ void bound(T* x) { x[threadIdx.x] = 9; }  // bound
template __global__ void bound<float>(float*);
__attribute__((global)) void spelled(float* x) { x[threadIdx.x] = 10; }   // spelled
"""
)
PLACES = {
    "first_kernel": "_Z12first_kernelPf",
    "second_kernel": "_Z13second_kernelPf",
    "headed": "headed",
    "whole": "_Z5wholePf",
    "spelled": "_Z7spelledPf",
    **SYMBOLS,
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    tree = tmp_path_factory.mktemp("tree")
    (tree / "list.def").write_text("X(a, 1)\nX(b, 2)\n")
    (tree / "k.hip").write_text(SOURCE)
    words = ["hipcc", "-O3", "-std=c++20", "-ffile-prefix-map=/=/nowhere/", "-c", "k.hip"]
    database = [{"directory": str(tree), "file": "k.hip", "arguments": words}]
    (tree / "compile_commands.json").write_text(json.dumps(database))
    return tree, device_code(tree / "k.hip", tree / "k.hsaco", "-std=c++20")


def located(tmp_path: Path, built: tuple[Path, bytes], symbol: str):
    store = Store.open(tmp_path / "store")
    digest, source = run_locate(store, publish(store, built[1], symbol), Options((built[0],)))
    return store, digest, source


@pytest.mark.parametrize("mark", PLACES)
def test_the_line_is_the_compilers(tmp_path, built, mark):
    _, _, source = located(tmp_path, built, PLACES[mark])
    assert source.outcome is Outcome.FOUND, source.explanation
    assert (source.definition.path, source.definition.line) == (
        str(built[0] / "k.hip"),
        marked_line(SOURCE, mark),
    )


def test_a_constrained_template_is_found(tmp_path, built):
    symbol = next(name for name in re.findall(rb"_Z\w*bound\w*", built[1]) if b"." not in name).decode()
    _, _, source = located(tmp_path, built, symbol)
    assert source.outcome is Outcome.FOUND, source.explanation
    assert source.definition.line == marked_line(SOURCE, "bound")


def test_a_kernel_of_a_list_in_another_file_is_edited_there(tmp_path, built):
    tree, code = built
    store, digest, source = located(tmp_path, built, "_Z6from_bPf")
    assert (source.definition.path, source.definition.line) == (str(tree / "list.def"), 2)
    made, reproducer = run_generate(store, digest)
    project = tmp_path / "project"
    check_out(store, made, reproducer, project, force=False)
    assert (project / "kernel_variant.cpp").read_text() == (tree / "list.def").read_text()
    assert make(project, "recompile").returncode == 0
    built_code = (project / "optimized.hsaco").read_bytes()
    assert read_kernel_code(built_code, "_Z6from_bPf") == read_kernel_code(code, "_Z6from_bPf") is not None


def test_without_a_compile_command_an_assumed_one_is_asked(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "name.inc").write_text("scale\n")
    (tree / "k.hip").write_text(
        '#include <hip/hip_runtime.h>\n__global__ void\n#include "name.inc"\n(float* x) { *x *= 2; }\n'
    )
    code = device_code(tree / "k.hip", tree / "k.hsaco")
    _, _, source = located(tmp_path, (tree, code), "_Z5scalePf")
    assert source.outcome is Outcome.FOUND, source.explanation
    assert source.definition.path.startswith(str(tree))
    assert "is assumed" in source.explanation
    assert source.unedited.same_instructions


def test_without_a_compile_command_it_says_what_would_help(tmp_path, built):
    tree, code = built
    (tmp_path / "alone").mkdir()
    shutil.copy(tree / "k.hip", tmp_path / "alone")
    shutil.copy(tree / "list.def", tmp_path / "alone")
    alone = (tmp_path / "alone", code)
    _, _, source = located(tmp_path, alone, "_Z6from_bPf")
    assert source.outcome is Outcome.NOT_FOUND
    assert "macros there could make it (X)" in source.explanation
    assert "compile_commands.json" in source.explanation
    # Of two that differ by what nobody is asked for, the first, without its parameters' types.
    _, _, source = located(tmp_path, alone, "_Z4overPd")
    assert (source.outcome, source.definition.line) == (Outcome.FOUND, marked_line(SOURCE, "over(float*)"))
    assert "2 definitions fit" in source.explanation
    assert source.definition.parameters == ()


def test_library_code_has_no_trail_whatever_macros_there_are(tmp_path, built):
    _, _, source = located(tmp_path, built, "Cijk_Ailk_Bljk_SB_MT32")
    assert source.outcome is Outcome.NO_SOURCE_TRAIL
