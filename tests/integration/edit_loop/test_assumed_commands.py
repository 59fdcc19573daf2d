"""What the user is told where no compile command is known and the assumed one does not do."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from made_up import device_code, publish

from kerncap_stages.generate.engine import run_generate
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options
from kerncap_stages.manifests.source import Outcome
from kerncap_stages.project.checkout import check_out

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("hipcc") is None, reason="needs hipcc: run it in the ROCm root")

SCALE = "_Z5scalePf"


@pytest.fixture
def unit(tree: Path) -> Path:
    """A unit whose header is in another folder, and wants a macro."""
    header = tree / "inc/grid/real.h"
    header.parent.mkdir(parents=True)
    header.write_text('#ifndef REAL\n#error "pass -DREAL=float"\n#endif\n')
    unit = tree / "src/scale.hip"
    unit.parent.mkdir()
    unit.write_text(
        '#include <hip/hip_runtime.h>\n#include "grid/real.h"\n'
        "__global__ void scale(REAL* x) { x[threadIdx.x] = x[threadIdx.x] / 3 + sin(x[threadIdx.x]); }\n"
    )
    return unit


def test_the_error_is_that_of_the_command_with_the_assumed_folders(store, unit, tree, tmp_path):
    code = device_code(unit, tmp_path / "code.hsaco", f"-I{tree}/inc", "-DREAL=float")
    capture = publish(store, code, SCALE)
    digest, source = run_locate(store, capture, Options((tree,)))
    assert source.outcome is Outcome.FOUND
    assert f"`hipcc -O3 -I{tree}/inc {unit}` was tried: " in source.explanation
    assert "pass -DREAL=float" in source.explanation
    assert "file not found" not in source.explanation
    assert "give it with -D NAME=VALUE" in source.explanation
    made, reproducer = run_generate(store, digest)
    check_out(store, made, reproducer, tmp_path / "project", force=False)
    readme = (tmp_path / "project/README.md").read_text()
    assert "This project has the kernel's instructions, not its source: no compile command found" in readme
    _, source = run_locate(store, capture, Options((tree,), defines=("REAL=float",)))
    assert source.unedited.same_instructions


def test_a_header_in_a_folder_that_was_not_named(store, unit, tree, tmp_path):
    code = device_code(unit, tmp_path / "code.hsaco", f"-I{tree}/inc", "-DREAL=float")
    capture = publish(store, code, SCALE)
    options = Options((tree / "src",), defines=("REAL=float",))
    _, source = run_locate(store, capture, options)
    assert "'grid/real.h' file not found" in source.explanation
    assert "name the folder that holds grid/real.h by another --source-dir, or give" in source.explanation
    named = Options((tree / "src", tree / "inc"), defines=("REAL=float",))
    _, source = run_locate(store, capture, named)
    assert source.unedited.same_instructions


def test_fast_math_is_recognised(store, unit, tree, tmp_path):
    code = device_code(unit, tmp_path / "code.hsaco", f"-I{tree}/inc", "-DREAL=float", "-ffast-math")
    _, source = run_locate(store, publish(store, code, SCALE), Options((tree,), defines=("REAL=float",)))
    assert source.unedited.same_instructions is False
    assert f"`hipcc -O3 -I{tree}/inc -DREAL=float {unit}` is assumed" in source.explanation
    assert source.unedited.why.startswith("the program was built with -ffast-math, which gives the captured")


# clang orders these instructions otherwise where it describes variables to a debugger.
NORM = """#include <hip/hip_runtime.h>
__global__ void norm(const float* x, float* y, int n, float eps) {
  int row = blockIdx.x; float s = 0;
  for (int c = threadIdx.x; c < n; c += 32) s += x[row*n+c]*x[row*n+c];
  for (int o = 16; o; o >>= 1) s += __shfl_xor(s, o, 32);
  float k = rsqrtf(s / n + eps);
  for (int c = threadIdx.x; c < n; c += 32) y[row*n+c] = k * x[row*n+c];
}
"""


@pytest.mark.parametrize("flag", ["-g", "-gline-tables-only", "-g0"])
def test_debug_information_is_recognised(store, tree, flag):
    (tree / "k.hip").write_text(NORM)
    code = device_code(tree / "k.hip", tree / "k.hsaco", flag)
    _, source = run_locate(store, publish(store, code, "_Z4normPKfPfif"), Options((tree,)))
    assert source.unedited.same_instructions, source.unedited.why
    assert f"`hipcc -O3{' -g' if flag == '-g' else ''} {tree}/k.hip` is assumed" in source.explanation


def test_a_macro_that_makes_the_kernel_is_named(store, tree, tmp_path):
    (tree / "k.hip").write_text(
        "#include <hip/hip_runtime.h>\n"
        "#define UNARY(name, expr) __global__ void name(float* x) { float v = *x; *x = expr; }\n"
        "UNARY(scale, v * 2)\n"
    )
    code = device_code(tree / "k.hip", tmp_path / "code.hsaco")
    digest, source = run_locate(store, publish(store, code, SCALE), Options((tree,)))
    assert source.explanation.startswith("line 3 uses the macro UNARY, which makes the kernel; ")
    made, reproducer = run_generate(store, digest)
    check_out(store, made, reproducer, tmp_path / "project", force=False)
    assert "1. Edit `kernel_variant.cpp` (line 3)." in (tmp_path / "project/README.md").read_text()
