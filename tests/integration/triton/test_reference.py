"""A GEMM of Triton that accumulates in half precision, judged against fp64: tensors have their shapes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from triton_package import PROGRAMS, edit, judge

BOUNDS = "--rtol 0.01 --tolerance 0.01"
REFERENCE = """
def reference(args):
    assert args["SIZE"] in (16, 32, 64) and args["n"] == args[3] == 64
    assert args["a"].shape == args["b"].shape == args["c"].shape == (64, 64)
    return {"c": args["a"] @ args["b"]}
"""


@pytest.fixture
def project(with_triton, tmp_path):
    folder = tmp_path / "project"
    (digest,) = with_triton.capture("matmul_kernel", sys.executable, PROGRAMS / "kernels.py", "matmul")
    with_triton.run("generate", with_triton.run("locate", digest).must().digests[0], "-o", folder).must()
    (folder / "true outputs.py").write_text(REFERENCE)
    return folder


def test_a_gemm_that_accumulates_in_half_precision_fails_against_fp64(with_triton, project):
    edit(
        project,
        "total += tl.dot(left, right)",
        "total = (total + tl.dot(left, right)).to(tl.float16).to(tl.float32)",
    )
    judge(project, with_triton)
    given = ("validate", project, *BOUNDS.split())
    without = with_triton.run(*given)
    assert without.code == 0, without.err
    done = with_triton.run(*given, "--reference", project / "true outputs.py")
    assert done.code == 1, done.err
    assert re.search(r"FAIL precision of c \(\*fp32\): largest error", done.err), done.err


def test_the_makefile_takes_a_reference(with_triton, project):
    judge(project, with_triton)
    words = ["make", "validate-variant", "REFERENCE=true outputs.py", f"VALIDATE_FLAGS={BOUNDS}"]
    path = f"{Path(sys.executable).parent}:{with_triton.environment['PATH']}"
    environment = {**with_triton.environment, "PATH": path}
    done = subprocess.run(words, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    by_chance = subprocess.run(
        words[:2] + words[3:],
        cwd=project,
        env={**environment, "REFERENCE": "true outputs.py"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert by_chance.returncode == 0, by_chance.stderr
    assert "pass precision" not in by_chance.stderr
    assert "pass precision of c (*fp32)" in done.stderr


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ('{"c": (args["a"] @ args["b"])[0]}', r"has the shape \(64, 64\), but `reference` returned \(64,\)"),
        ('{"c": args["a"] @ args["b"].T}', "more than the bounds allow"),
        ('{"d": args["a"] @ args["b"]}', r"no argument; the arguments are 0: a \(\*fp16\)"),
    ],
)
def test_a_wrong_reference_is_refused(with_triton, project, returned, said):
    (project / "wrong.py").write_text(f"def reference(args):\n    return {returned}\n")
    judge(project, with_triton)
    done = with_triton.run("validate", project, *BOUNDS.split(), "--reference", project / "wrong.py")
    assert done.code in (2, 6), done.err
    assert re.search(said, done.err), done.err
