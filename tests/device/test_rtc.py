"""Kernels that a program compiles by NVRTC: captured on a real GPU, rebuilt by nvcc, edited and judged."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from nvidia_gpu import architecture
from programs import SOURCES

JITERATOR = """
import torch
double = torch.cuda.jiterator._create_jit_fn("template <typename T> T doubled(T x) { return x + x; }")
x = torch.randn(100_000, device="cuda")
for step in range(3):
    y = double(x)
torch.cuda.synchronize()
print("right" if bool((y == x * 2).all()) else "wrong")
"""
BUILT_IN = """
import torch
x = torch.rand(100_000, device="cuda")
for step in range(3):
    y = torch.special.bessel_j0(x)
torch.cuda.synchronize()
print("right" if 0.7 < float(y.min()) <= 1 else "wrong")
"""


def project_of(kc, capture, folder):
    source = kc.ok("kc-locate", capture).digest
    assert kc.show(source)["outcome"] == "found"
    kc.ok("kc-generate", source, "--output", folder)
    return folder


def judge(kc, project):
    kc.ok("make", "-C", project, "recompile")
    return kc.run("make", "-C", project, "validate-variant").err


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize("form", ["CUBIN", "PTX"])
def test_a_kernel_is_rebuilt_from_what_the_program_passed(kc, tmp_path, form):
    toolkit = Path(shutil.which("nvcc")).resolve().parents[1]
    library = next(toolkit.glob("lib64/libnvrtc.so.*"))
    target = architecture() if form == "CUBIN" else architecture().replace("sm_", "compute_")
    program = (sys.executable, SOURCES / "rtc/nvrtc_launch.py", library, target, form)
    done = kc.ok("kc-capture", "--kernel", "blend", "--", *program)
    assert "right" in done.err.split(), done.err
    project = project_of(kc, done.digest, tmp_path / "project")
    assert "Result: PASS  (byte-exact" in judge(kc, project)
    variant = project / "kernel_variant.cu"
    edit(variant, "left[i], right[i]", "right[i], left[i]")
    assert "Result: PASS" in judge(kc, project)
    edit(variant, "* FACTOR", "- FACTOR")
    assert "Result: FAIL" in judge(kc, project)


@pytest.mark.parametrize(
    ("script", "kernel", "right", "wrong"),
    [
        pytest.param(JITERATOR, "doubled", ("x + x", "2 * x"), ("2 * x", "3 * x"), id="jiterator"),
        pytest.param(
            BUILT_IN, "bessel_j0", ("x < T(0)", "T(0) > x"), ("* x - T(5.78", "* x + T(5.78"), id="built_in"
        ),
    ],
)
def test_a_kernel_that_pytorch_compiles_at_run_time(kc, tmp_path, script, kernel, right, wrong):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    path = tmp_path / "program.py"
    path.write_text(script)
    done = kc.ok("kc-capture", "--kernel", kernel, "--", sys.executable, path)
    assert "right" in done.err.split(), done.err
    project = project_of(kc, done.digest, tmp_path / "project")
    assert "Result: PASS  (byte-exact" in judge(kc, project)
    variant = project / "kernel_variant.cu"
    edit(variant, *right)
    assert "Result: PASS" in judge(kc, project)
    edit(variant, *wrong)
    assert "Result: FAIL" in judge(kc, project)
