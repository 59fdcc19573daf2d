"""Each Triton kernel of programs/triton: captured, compiled alone, run in Python, edited and judged."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from triton_edits import EDITS
from triton_package import PROGRAMS

pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture
def project(kc, tmp_path, monkeypatch):
    """Capture a kernel of a program, and make its project; the kernel is compiled anew."""
    monkeypatch.setitem(os.environ, "TRITON_CACHE_DIR", str(tmp_path / "compiled"))

    def make(kernel, program, *words, options=()):
        done = kc.ok("kc-capture", "-k", kernel, *options, "--", sys.executable, PROGRAMS / program, *words)
        assert "right" in done.err.split(), done.err
        capture = done.out.split()[-1]
        assert kc.show(capture)["kernel"]["language"] == "triton"
        kc.ok("kc-generate", kc.ok("kc-locate", capture).digest, "--output", tmp_path / "project")
        return tmp_path / "project"

    return make


def judge(kc, project):
    """Compile the variant and return what the verdict prints."""
    kc.ok("make", "-C", project, "recompile", f"PYTHON={sys.executable}")
    return kc.run("make", "-C", project, "validate-variant").err


def edit(project, old, new):
    path = project / "kernel_variant.py"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def judge_edits(kc, project, right, wrong):
    """Judge the variant as it is, after a right edit, and after a wrong one. Edits: (old text, new text)."""
    variant = project / "kernel_variant.py"
    original = variant.read_text()
    assert "Result: PASS  (byte-exact" in judge(kc, project)
    edit(project, *right)
    assert "Result: PASS" in judge(kc, project)
    variant.write_text(original)
    edit(project, *wrong)
    assert "Result: FAIL" in judge(kc, project)


def run(project):
    """Run the kernel in Python, and return what is printed of each tensor."""
    done = subprocess.run(
        [sys.executable, project / "reproducer.py", "--run"],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", EDITS)
def test_a_kernel_becomes_a_project_of_python(kc, project, name):
    kernel, right, wrong = EDITS[name]
    folder = project(kernel, "kernels.py", name)
    assert set(run(folder).values()) == {"equal"}
    judge_edits(kc, folder, right, wrong)
    assert set(run(folder).values()) != {"equal"}


def test_kernels_of_one_name_are_told_apart(kc, project):
    folder = project("scale", "one_name.py", options=("--count", 2))
    judge_edits(kc, folder, ("* FACTOR", "* (FACTOR * 1)"), ("* FACTOR", "* (FACTOR - 2)"))


def test_a_kernel_of_an_executed_string(kc, project):
    folder = project("cell", "executed_string.py")
    judge_edits(kc, folder, ("tl.load(x + at) + 1.0", "1.0 + tl.load(x + at)"), ("+ 1.0", "+ 2.0"))
