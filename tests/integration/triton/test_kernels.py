"""Each Triton kernel: captured, traced to its function, compiled again alone, edited and judged."""

from __future__ import annotations

import sys

import pytest
from triton_package import PROGRAMS, edit, judge

KERNELS = PROGRAMS / "kernels.py"
# function of kernels.py -> its kernel, a right edit and a wrong one: (old text, new text)
EDITS = {
    "add": ("add_kernel", ("a = tl.load(x + at, mask=mask)", "a = tl.load(x + at, mask, 0.0)"), ("-x", "x")),
    "softmax": ("softmax_kernel",
                ("values - tl.max(values, axis=0)", "-tl.max(values, axis=0) + values"),
                ("tl.sum(powers, axis=0)", "tl.max(powers, axis=0)")),
    "layer_norm": ("layer_norm_kernel", ("centred * centred", "(centred * centred)"),
                   ("/ columns\n", "/ 2\n")),
    "matmul": ("matmul_kernel", ("total += tl.dot(left, right)", "total = tl.dot(left, right, total)"),
               ("tl.dot(left, right)", "tl.dot(left, left)")),
    "atomics": ("count_kernel", ("other=0), 1,", "other=0), 2 - 1,"), ("other=0), 1,", "other=0), 2,")),
    "attention": ("attention_kernel", ("largest = higher", "largest = tl.maximum(higher, largest)"),
                  ("shrink[:, None] +", "1.0 +")),
    "fp8": ("fp8_kernel", (".to(tl.float32) * 2", ".to(tl.float32) * 4 * 0.5"), ("* 2)", "* 3)")),
    "descriptors": ("copy_kernel", ("given.load([at, 0]) + 1", "1 + given.load([at, 0])"), ("+ 1)", "+ 2)")),
    "host_descriptors": ("double_kernel", ("* 2)", "* 4 * 0.5)"), ("* 2)", "* 4)")),
}  # fmt: skip
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
