"""Kernels of PyTorch, CuPy and FlashInfer: profiled, captured, located where there is source, judged.

A library that is not installed is skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs/python_libraries"
STUDY = Path(__file__).parents[2] / "docs/case-studies/frameworks"
sys.path[1:1] = [str(STUDY.parent / name) for name in ("frameworks", "frameworks-cuda", "common")]

from cuda_libraries import ATTENTION, FLASHINFER, MOST_KERNELS  # noqa: E402 - after the path of studies
from framework_kernels import CUPY  # noqa: E402
from silenced import silence  # noqa: E402

COMPILE_LIMIT_S = 600  # FlashInfer compiles a kernel when it is first called


def program(name, *words):
    return (sys.executable, PROGRAMS / f"{name}.py", *words)


def find_kernel(kc, pattern, words):
    """Profile a program, and return the full name of the one kernel with this part in its name."""
    profile = kc.show(kc.ok("kc-profile", "--", *words).digest)
    names = [kernel["name"] for kernel in profile["kernels"]]
    found = [name for name in names if pattern in name]
    assert found, f"no {pattern} among {names}"
    return found[0]


def captured(kc, name, words):
    done = kc.ok("kc-capture", "--kernel", name, "--", *words)
    assert "right" in done.err.split(), done.err
    capture = kc.show(done.digest)
    assert sum(region["written_size_bytes"] for region in capture["regions"]) > 0
    return done.digest


def judge_code(kc, capture, folder):
    """Judge the captured code as a variant of itself, and without its instructions."""
    code = kc.show(capture)["kernel"]
    told = subprocess.run(
        ["kc-store", "cat", code["code_object"]["payload"]],
        env={**os.environ, "KERNCAP_STORE": str(kc.store)}, capture_output=True, check=True,
    )  # fmt: skip
    same, silent = folder / "same.cubin", folder / "silent.cubin"
    same.write_bytes(told.stdout)
    silent.write_bytes(silence(told.stdout, code["mangled_name"]))
    kc.ok("kc-validate", capture)
    passed = kc.run("kc-validate", capture, "--variant", same)
    assert passed.code == 0, passed.err
    failed = kc.run("kc-validate", capture, "--variant", silent)
    assert failed.code == 1, failed.err
    assert "Result: FAIL" in failed.err


def judge_edits(kc, project, variant, right, wrong):
    """Compile the project unchanged, with a right edit and with a wrong one, and judge each."""
    text = variant.read_text()
    for edited, expected in ((text, "PASS"), (right.apply(text), "PASS"), (wrong.apply(text), "FAIL")):
        variant.write_text(edited)
        kc.ok("make", "-C", project, "recompile")
        said = kc.run("make", "-C", project, "validate-variant").err
        assert f"Result: {expected}" in said, said


@pytest.mark.parametrize(("backend", "kernel"), ATTENTION.items())
def test_attention_of_pytorch(kc, tmp_path, backend, kernel):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    words = program("attention", backend)
    digest = captured(kc, find_kernel(kc, kernel, words), words)
    judge_code(kc, digest, tmp_path)


def test_kernels_of_a_training_step(kc, record_property):
    """Forward, attention, backward and AdamW of a transformer layer: some of its kernels get verdicts."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    words = program("training")
    profile = kc.show(kc.ok("kc-profile", "--", *words).digest)
    names = [kernel["name"] for kernel in profile["kernels"] if not kernel["name"].startswith("__")]
    assert len(names) >= 10, names
    verdicts = {}
    for name in names[:: -(-len(names) // MOST_KERNELS)]:  # each takes six seconds
        digest = kc.ok("kc-capture", "--kernel", name, "--exact", "--", *words).digest
        verdicts[name] = kc.run("kc-validate", digest).code
    record_property("kernels", verdicts)
    assert set(verdicts.values()) == {0}, verdicts


@pytest.mark.parametrize("kernel", CUPY, ids=lambda kernel: kernel.key)
def test_kernels_of_cupy(kc, tmp_path, monkeypatch, kernel):
    pytest.importorskip("cupy", reason="CuPy is not installed")
    monkeypatch.setenv("CUPY_ACCELERATORS", "")  # sums by CuPy's own kernels, not by CUB's
    words = (sys.executable, STUDY / "programs/cupy_program.py")
    source = kc.ok("kc-locate", captured(kc, find_kernel(kc, kernel.pattern, words), words)).digest
    assert kc.show(source)["outcome"] == "found"
    project = tmp_path / "project"
    kc.ok("kc-generate", source, "--output", project)
    judge_edits(kc, project, project / "kernel_variant.cu", kernel.right, kernel.wrong)


@pytest.mark.parametrize("unit", FLASHINFER, ids=lambda unit: unit.kernel.key)
def test_kernels_of_flashinfer(kc, of_run, tmp_path, monkeypatch, unit):
    if find_spec("flashinfer") is None:
        pytest.skip("FlashInfer is not installed")
    workspace = of_run / "flashinfer"
    monkeypatch.setitem(os.environ, "FLASHINFER_WORKSPACE_BASE", str(workspace))
    monkeypatch.setitem(os.environ, "FLASHINFER_USE_CUDA_NORM", "1")
    kernel = unit.kernel
    words = program("flashinfer_kernels", kernel.program.removeprefix("flashinfer-"))
    built = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, timeout=COMPILE_LIMIT_S
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (ninja,) = workspace.rglob(f"cached_ops/{unit.build}/build.ninja")
    data = Path(find_spec("flashinfer").origin).parent / "data"
    capture = captured(kc, find_kernel(kc, kernel.pattern, words), words)
    located = kc.ok("kc-locate", capture, "--source-dir", data / "include", "--compile-commands", ninja)
    found = kc.show(located.digest)
    assert found["outcome"] == "found", found["explanation"]
    assert found["definition"]["path"].endswith(unit.header)
    project = tmp_path / "project"
    kc.ok("kc-generate", located.digest, "--output", project)
    judge_edits(kc, project, project / kernel.file, kernel.right, kernel.wrong)
