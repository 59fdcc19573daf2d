"""Relocatable device code: kernels that call device functions of other translation units."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from made_up import make
from stages import Stages

from kerncap_stages.store import Store

if TYPE_CHECKING:
    from pathlib import Path

KERNEL = """#include <hip/hip_runtime.h>
__device__ float twice(float);
{static}__global__ void scale(float* x) {{ x[threadIdx.x] = twice(x[threadIdx.x]); }}
int main() {{
  float* x = nullptr;
  if (hipMalloc(&x, 256) != hipSuccess || hipMemset(x, 63, 256) != hipSuccess) return 2;
  scale<<<1, 64>>>(x);
  return hipDeviceSynchronize() == hipSuccess ? 0 : 1;
}}
"""
# It uses a third unit itself, and another target of the project defines the same name otherwise.
TWICE = """#include "factor.hpp"
__device__ float bias();
__device__ float twice(float x) { return x * FACTOR + bias(); }
"""
BIAS = """#include <hip/hip_runtime.h>
__device__ float bias() { return 3; }
"""
UNUSED = """#include <hip/hip_runtime.h>
__global__ void unused(float* x) { *x = 1; }
"""
UNITS = ("kernel", "twice", "bias", "unused")


def build(tree: Path, static: str = "", level: str = "-O3") -> Path:
    """A program of four units, and a compilation database that has another program's unit first.

    level: of the program; the database says -O3.
    """
    tree.mkdir()
    (tree / "factor.hpp").write_text("#include <hip/hip_runtime.h>\n#define FACTOR 2\n")
    texts = (KERNEL.format(static=static), TWICE, BIAS, UNUSED)
    for name, text in zip(UNITS, texts, strict=True):
        (tree / f"{name}.hip").write_text(text)
    (tree / "other.hip").write_text(TWICE.replace("x *", "7 - x *"))
    words = ["hipcc", "-O3", "--offload-arch=gfx90a", "-fgpu-rdc"]
    outputs = {"other": "other.dir/other.o"} | {name: f"app.dir/{name}.o" for name in UNITS}
    entries = [
        {"directory": str(tree), "file": f"{name}.hip", "arguments": [*words, "-c", f"{name}.hip", "-o", out]}
        for name, out in outputs.items()
    ]
    (tree / "compile_commands.json").write_text(json.dumps(entries))
    command = [*words, level, *(f"{name}.hip" for name in UNITS), "-o", "app"]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)
    return tree / "app"


@pytest.fixture(scope="module")
def captured_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A capture of the program that most tests want, and the folder with its tree and its store."""
    folder = tmp_path_factory.mktemp("relocatable")
    app = build(folder / "tree")
    Store.open(folder / "store")
    (capture,) = Stages(folder / "store", folder).capture("scale", app)
    shutil.copytree(folder / "tree", folder / "saved")
    return capture, folder


@pytest.fixture
def captured(captured_once: tuple[str, Path], stages: Stages) -> tuple[str, Path]:
    """That capture in the test's own store, and its tree as it was built, to be changed."""
    capture, folder = captured_once
    shutil.copytree(folder / "store", stages.store, dirs_exist_ok=True)
    shutil.rmtree(folder / "tree", ignore_errors=True)
    return capture, shutil.copytree(folder / "saved", folder / "tree")


def check_linked_units(stages: Stages, capture: str, tree: Path) -> None:
    """Units that the kernel uses are found, and edits of each of them are judged without the tree."""
    source = stages.run("locate", capture, "--source-dir", tree, "--json").must().manifest
    assert source["outcome"] == "found", source["explanation"]
    assert source["unedited"]["same_instructions"] is True, source["explanation"]
    units = [unit["translation_unit"] for unit in source["linked_units"]]
    assert units == [str(tree / "twice.hip"), str(tree / "bias.hip")]
    assert "linked with" in source["explanation"]
    stages.run("generate", "@source", "--output", "project").must()
    project = stages.folder / "project"
    shutil.rmtree(tree)
    built = make(project, "recompile")
    assert built.returncode == 0, built.stderr
    assert "Result: PASS  (byte-exact" in stages.run("validate", "project").must().err
    for name, old, new in (
        ("deps/bias.hip", "return 3", "return 4"),
        ("deps/factor.hpp", "FACTOR 2", "FACTOR 3"),
        ("kernel_variant.cpp", "= twice", "= 1 + twice"),
    ):
        file = project / name
        before = file.read_text()
        assert old in before
        file.write_text(before.replace(old, new))
        assert make(project, "recompile").returncode == 0
        assert "Result: FAIL" in stages.run("validate", "project").must(1).err
        file.write_text(before)
    assert make(project, "recompile").returncode == 0
    assert "Result: PASS" in stages.run("validate", "project").must().err


def test_units_that_the_kernel_uses_are_linked_and_edited(stages: Stages, captured: tuple[str, Path]):
    check_linked_units(stages, *captured)


@pytest.mark.slow
def test_units_that_a_static_kernel_uses_are_linked_and_edited(stages: Stages, tmp_path: Path):
    (capture,) = stages.capture("scale", build(tmp_path / "tree", "static "))
    check_linked_units(stages, capture, tmp_path / "tree")


def test_what_no_unit_defines_is_named(stages: Stages, captured: tuple[str, Path]):
    capture, tree = captured
    database = tree / "compile_commands.json"
    entries = [entry for entry in json.loads(database.read_text()) if "bias" not in entry["file"]]
    database.write_text(json.dumps(entries))
    source = stages.run("locate", capture, "--source-dir", tree, "--json").must().manifest
    assert "uses _Z4biasv, which no unit in the compile commands defines" in source["explanation"]
    assert source["unedited"]["same_instructions"] is None
    assert "undefined" in source["unedited"]["why"]


@pytest.mark.slow
def test_what_the_linked_units_read_is_looked_at_again(stages: Stages, captured: tuple[str, Path]):
    capture, tree = captured

    def locate() -> str:
        return stages.run("locate", capture, "--source-dir", tree).must().digests[0]

    first = locate()
    (tree / "notes.txt").write_text("read by no unit\n")
    assert locate() == first
    factor = tree / "factor.hpp"
    before = factor.read_text()
    factor.write_text(before.replace("FACTOR 2", "FACTOR 5"))
    edited = locate()
    assert edited != first
    unedited = stages.show(edited)["unedited"]
    assert unedited["same_instructions"] is False
    assert str(factor) in unedited["why"]
    factor.write_text(before)
    bias = tree / "bias.hip"
    bias.write_text(BIAS.replace("return 3", "return 4"))
    assert locate() not in (first, edited)


def test_a_level_of_optimisation_is_tried_for_all_units(stages: Stages, tmp_path: Path):
    tree = tmp_path / "tree"
    (capture,) = stages.capture("scale", build(tree, level="-O0"))
    source = stages.run("locate", capture, "--source-dir", tree, "--json").must().manifest
    assert source["unedited"]["same_instructions"] is False
    assert "the program was built with -O0" in source["unedited"]["why"]
