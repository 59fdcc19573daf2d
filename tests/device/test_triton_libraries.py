"""Every Triton kernel of whole libraries from PyPI, as their operators launch it: captured, compiled, judged.

A library that is not installed is skipped; its programs are in programs/triton_libraries.
"""

from __future__ import annotations

import ast
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from triton_stores import OTHER, OTHER_FP8, SAME, edit_stores

pytest.importorskip("torch", reason="PyTorch is not installed")

PROGRAMS = Path(__file__).parent / "programs/triton_libraries"
LIBRARIES = {
    "liger": "liger_kernel",
    "conch_kernels": "conch",
    "sage": "sageattention",
    "cce": "cut_cross_entropy",
    "stanford_stk": "stk",
    "fla_ops": "fla",
    "fla_modules": "fla",
}

# Which of several threads gets a place in a list differs from run to run: right code looks like wrong code.
UNSTEADY = {"generate_dense_voxels_triton_kernel", "generate_voxels_triton_kernel"}
OWN_DIFFERENCES = "the captured kernel itself is not deterministic"


def operators(program):
    tree = ast.parse((PROGRAMS / f"{program}.py").read_text())
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [name for name in names if not name.startswith("_")]


@pytest.fixture
def claim(of_run):
    """Says whether a kernel of a library is not yet another test's: operators share kernels."""

    def claim(library, kernel):
        folder = of_run / "kernels-of-libraries"
        folder.mkdir(exist_ok=True)
        try:
            (folder / f"{library}-{kernel}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    return claim


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "operator"), [(name, operator) for name in LIBRARIES for operator in operators(name)]
)
def test_each_kernel_of_an_operator(
    kc, claim, of_run, tmp_path, monkeypatch, record_property, program, operator
):
    if find_spec(LIBRARIES[program]) is None:
        pytest.skip(f"{LIBRARIES[program]} is not installed")
    for name, folder in (("TRITON_CACHE_DIR", "triton"), ("TORCHINDUCTOR_CACHE_DIR", "inductor")):
        monkeypatch.setitem(os.environ, name, str(of_run / f"compiled-{folder}"))
    words = (sys.executable, PROGRAMS / f"{program}.py", "--configurations", 2, operator)
    ran = kc.ok("kc-profile", "--", *words)
    kernels = {
        kernel["triton"][0]["function"]
        for kernel in kc.show(ran.out.split()[-1])["kernels"]
        if kernel["triton"]
    }
    assert kernels, "the operator launches no kernel that Triton compiled"
    mine = sorted(kernel for kernel in kernels if claim(LIBRARIES[program], kernel))
    found = {kernel: judge(kc, tmp_path / kernel, kernel.rpartition(".")[2], words) for kernel in mine}
    record_property("kernels", found)
    wrong = {kernel: outcome for kernel, outcome in found.items() if outcome != "as it should be"}
    assert not wrong, "\n".join(f"{kernel}: {outcome}" for kernel, outcome in wrong.items())


def judge(kc, folder, kernel, words):
    """Take a kernel out of the program, and judge it unchanged, after a right edit, and after a wrong one."""
    captured = kc.run("kc-capture", "-k", kernel, "--", *words)
    if captured.code:
        return f"capture: {captured.err}"
    located = kc.run("kc-locate", captured.out.split()[-1])
    generated = kc.run("kc-generate", *located.out.split(), "--output", folder)
    variant = folder / "kernel_variant.py"
    if generated.code or not variant.exists():
        return f"no project of Python: {located.err} {generated.err}"
    unchanged = verdict(kc, folder)
    if kernel in UNSTEADY:
        return "as it should be" if OWN_DIFFERENCES in unchanged else f"unchanged: {unchanged}"
    if unchanged != "PASS":
        return f"unchanged: {unchanged}"
    texts = {path: path.read_text() for path in (variant, *sorted((folder / "triton_sources").glob("*.py")))}
    for changes, expected in (((SAME,), "PASS"), ((OTHER, OTHER_FP8), "FAIL")):
        for change in changes:
            for path, text in texts.items():
                path.write_text(edit_stores(text, change))
            if not (result := verdict(kc, folder)).startswith("does not compile"):
                break
        if not result.startswith(expected):
            return f"stores {change}: {result}"
    return "as it should be"


def verdict(kc, folder):
    """Compile the variant, and return PASS, FAIL, or what went wrong."""
    compiled = kc.run("make", "-C", folder, "recompile", f"PYTHON={sys.executable}")
    if compiled.code:
        return f"does not compile: {compiled.out[-2000:]} {compiled.err[-2000:]}"
    text = kc.run("make", "-C", folder, "validate-variant").err
    for line in text.splitlines():
        if line.strip().startswith("Result: "):
            word = line.split()[1]
            return word if word == "PASS" else f"{word} {text}"
    return text
