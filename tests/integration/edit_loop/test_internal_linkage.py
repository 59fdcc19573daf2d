"""Kernels that only their own unit can name: found among those of others, whatever the linker calls them."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from shared import folder_of_run, made_once
from stages import Stages

from kerncap_stages.errors import ExitCode
from kerncap_stages.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KERNELS = ("scale", "shift")
UNIT = """#include <hip/hip_runtime.h>
namespace {{
__device__ float table_{name}[64];
__global__ void scale(float* x) {{ x[threadIdx.x] = table_{name}[threadIdx.x] += x[threadIdx.x] * {factor}; }}
}}
static __global__ void shift(float* x) {{ x[threadIdx.x] += {factor}; }}
void run_{name}(float* x) {{ scale<<<1, 64>>>(x); shift<<<1, 64>>>(x); }}
"""
# It has no device code: compiled as C++, it takes a tenth of the time.
MAIN = """#include <hip/hip_runtime_api.h>
void run_first(float*);
void run_second(float*);
int main() {
  float* x = nullptr;
  if (hipMalloc(&x, 256) != hipSuccess || hipMemset(x, 63, 256) != hipSuccess) return 2;
  run_first(x);
  run_second(x);
  return hipDeviceSynchronize() == hipSuccess ? 0 : 1;
}
"""


# A static variable of one name in both units; the linker numbers the second.
TWIN = """#include <hip/hip_runtime.h>
static __device__ float table[64] = {{ {first}, 1, 2 }};
__global__ void use_{name}(float* x) {{
  x[threadIdx.x] += table[threadIdx.x % {factor}];
  {write}
}}
void run_{name}(float* x) {{
  for (int i = 0; i < 2; ++i) use_{name}<<<1, 64>>>(x);
  if (hipDeviceSynchronize() != hipSuccess) __builtin_trap();
}}
"""


def build(tree: Path, *flags: str, unit: str = UNIT, **values: str) -> Path:
    """A program of two units with kernels or variables of the same names, and its compilation database."""
    tree.mkdir()
    for name, factor in (("first", "2"), ("second", "3")):
        text = unit.format(**({"name": name, "factor": factor, "first": factor} | values))
        (tree / f"{name}.hip").write_text(text)
    (tree / "main.cpp").write_text(MAIN)
    units = ["first.hip", "second.hip"]
    words = ["hipcc", "-O3", "--offload-arch=gfx90a", *flags]
    host = ["g++", "-O1", "-D__HIP_PLATFORM_AMD__", "-c", "main.cpp", "-o", "main.o"]
    entries = [
        {"directory": str(tree), "file": unit, "arguments": [*words, "-c", unit, "-o", f"{unit}.o"]}
        for unit in units
    ]
    entries.append({"directory": str(tree), "file": "main.cpp", "arguments": host})
    (tree / "compile_commands.json").write_text(json.dumps(entries))
    for command in (host, [*words, "main.o", *units, "-o", "app"]):
        subprocess.run(command, cwd=tree, check=True, capture_output=True)
    return tree / "app"


@pytest.fixture
def captured(
    stages: Stages, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, tuple[str, ...]], tuple[str, Path]]:
    """The capture of a kernel of the second unit, in the store of ``stages``, and the program's sources.

    The program is built and run once for each set of flags. Tests leave its sources as they are.
    """

    def take(kernel: str, flags: tuple[str, ...]) -> tuple[str, Path]:
        def capture_all(folder: Path) -> str:
            app = build(folder / "tree", *flags)
            Store.open(folder / "store")
            run = Stages(folder / "store", folder)
            return json.dumps(
                {each: run.capture(each, app, options=("--dispatch", "1"))[0] for each in KERNELS}
            )

        folder = folder_of_run(tmp_path_factory) / "internal_linkage" / ("".join(flags) or "alone")
        digests = json.loads(made_once(folder, capture_all))
        shutil.copytree(folder / "store", stages.store, dirs_exist_ok=True)
        return digests[kernel], folder / "tree"

    return take


@pytest.mark.parametrize(
    ("kernel", "flags"),
    [
        ("scale", ("-fgpu-rdc",)),
        ("shift", ()),
        pytest.param("scale", (), marks=pytest.mark.slow),
        pytest.param("shift", ("-fgpu-rdc",), marks=pytest.mark.slow),
    ],
)
def test_the_one_of_the_captured_unit_is_found_rebuilt_and_judged(
    stages: Stages,
    captured: Callable[[str, tuple[str, ...]], tuple[str, Path]],
    kernel: str,
    flags: tuple[str, ...],
):
    capture, tree = captured(kernel, flags)
    words = [
        "locate",
        capture,
        "--compile-commands",
        tree / "compile_commands.json",
        "--json",
        "--source-dir",
    ]
    source = stages.run(*words, tree).must().manifest
    if source["outcome"] == "ambiguous":
        # Linked with other units, its data is farther from it: instructions do not tell the unit then.
        assert (kernel, flags) == ("scale", ("-fgpu-rdc",))
        assert "name the right file with --source-dir FILE" in source["explanation"]
        source = stages.run(*words, tree / "second.hip").must().manifest
    assert source["outcome"] == "found", source["explanation"]
    assert source["definition"]["path"] == str(tree / "second.hip")
    stages.run("generate", "@source", "--output", "project").must()
    project = stages.folder / "project"
    subprocess.run(["make", "-C", project, "recompile"], check=True, capture_output=True)
    said = stages.run("validate", "project").must().err
    assert "Result: PASS  (byte-exact" in said
    edited = project / "kernel_variant.cpp"
    edited.write_text(edited.read_text().replace("3", "4"))
    subprocess.run(["make", "-C", project, "recompile"], check=True, capture_output=True)
    assert "Result: FAIL" in stages.run("validate", "project").must(1).err


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ({"write": "table[threadIdx.x] += 1;"}, "Result: PASS"),
        pytest.param({"write": "", "first": "7"}, "Result: PASS", marks=pytest.mark.slow),
        ({"write": ""}, "several units of the captured code object have a static variable _ZL5table"),
    ],
    ids=["written by the kernel", "the same in both", "cannot be told"],
)
def test_static_variables_of_one_name_are_told_apart_or_refused(
    stages: Stages, tmp_path: Path, values: dict[str, str], outcome: str
):
    tree = tmp_path / "tree"
    # Read with an index that the compiler does not know: so it is a variable, and no constant in the code.
    app = build(tree, "-fgpu-rdc", unit=TWIN, **values)
    (capture,) = stages.capture("use_second", app, options=("--dispatch", "1"))
    stages.run("locate", capture, "--source-dir", tree).must()
    stages.run("generate", "@source", "--output", "project").must()
    subprocess.run(["make", "-C", stages.folder / "project", "recompile"], check=True, capture_output=True)
    done = stages.run("validate", "project")
    assert outcome in done.err
    assert done.code == (0 if "PASS" in outcome else ExitCode.REFUSED)
