"""Each Triton kernel: captured, traced to its function, compiled again alone, edited and judged."""

from __future__ import annotations

import sys

import pytest
from triton_edits import EDITS
from triton_package import PROGRAMS, edit, judge

KERNELS = PROGRAMS / "kernels.py"
ON_GFX942 = ("matmul", "attention", "fp8", "host_descriptors")


@pytest.mark.parametrize(
    ("name", "target"),
    [
        *((name, "gfx90a") for name in EDITS if name != "fp8"),
        *((name, "gfx942") for name in ON_GFX942),
        *(pytest.param(name, "gfx942", marks=pytest.mark.slow) for name in EDITS if name not in ON_GFX942),
    ],
)
def test_a_kernel_becomes_a_project_of_python(with_triton, tmp_path, name, target):
    kernel, right, wrong = EDITS[name]
    stages, project = with_triton, tmp_path / "project"
    stages.target = target
    (digest,) = stages.capture(kernel, sys.executable, KERNELS, name)
    captured = stages.show(digest)["kernel"]
    assert captured["language"] == "triton"
    assert captured["triton"]["function_name"] == kernel
    assert captured["triton"]["autotuned"] == (name == "matmul")
    source = stages.run("locate", digest).must().digests[0]
    assert stages.show(source)["definition"]["path"] == str(KERNELS)
    stages.run("generate", source, "-o", project).must()
    assert "Result: PASS  (byte-exact" in judge(project, stages)
    original = (project / "kernel_variant.py").read_text()
    edit(project, *right)
    assert "Result: PASS" in judge(project, stages)
    (project / "kernel_variant.py").write_text(original)
    edit(project, *wrong)
    assert "Result: FAIL" in judge(project, stages)
