"""Triton and torch.compile: what is captured, and the edit loop in Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from nvidia_gpu import TRITON_SAXPY

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

TUNED = """
import torch, triton
import triton.language as tl

def configurations():
    return [triton.Config({"SIZE": size}, num_warps=warps) for size in (16, 32, 64) for warps in (2, 4)]

@triton.autotune(configs=configurations(), key=["n"])
@triton.jit
def matmul(a, b, c, n, SIZE: tl.constexpr):
    rows = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    columns = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    total = tl.zeros((SIZE, SIZE), dtype=tl.float32)
    for start in range(0, n, SIZE):
        inner = start + tl.arange(0, SIZE)
        left = tl.load(a + rows[:, None] * n + inner[None, :])
        right = tl.load(b + inner[:, None] * n + columns[None, :])
        total += tl.dot(left, right)
    tl.store(c + rows[:, None] * n + columns[None, :], total)

n = 512
a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
for step in range(3):
    c = torch.zeros(n, n, device="cuda")
    matmul[lambda chosen: (n // chosen["SIZE"],) * 2](a, b, c, n)
torch.cuda.synchronize()
print("chosen", matmul.best_config.kwargs["SIZE"], matmul.best_config.num_warps)
print("ok")
"""
COMPILED = (Path(__file__).parent / "programs/python_libraries/compiled.py").read_text()

TEMPLATES = """
import torch
torch._inductor.config.max_autotune_gemm_backends = "TRITON"

@torch.compile(mode="max-autotune-no-cudagraphs")
def multiply(x, y):
    return x @ y

x, y = (torch.randn(512, 512, device="cuda", dtype=torch.float16) for _ in range(2))
for step in range(3):
    z = multiply(x, y)
torch.cuda.synchronize()
print("ok", float(z[0, 0]))
"""


GRAPHED = """
import torch, triton
import triton.language as tl

@triton.jit
def scale(x, out, n, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(out + at, tl.load(x + at, at < n) * 3.0, at < n)

x, out = torch.randn(1000, device="cuda"), torch.zeros(1000, device="cuda")
scale[(8,)](x, out, 1000, SIZE=128)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    scale[(8,)](x, out, 1000, SIZE=128)
for step in range(3):
    out.zero_()
    graph.replay()
torch.cuda.synchronize()
print("ok", bool((out == x * 3).all()))
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Write a script; its kernels are compiled anew."""
    for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"):
        monkeypatch.setitem(os.environ, name, str(tmp_path / name))

    def write(text):
        path = tmp_path / "program.py"
        path.write_text(text)
        return (sys.executable, path)

    return write


def captured(kc, kernel, program, *options):
    done = kc.ok("kc-capture", "--kernel", kernel, *options, "--", *program)
    assert "ok" in done.err.split(), done.err
    assert "no record of a Triton kernel" not in done.err
    return done


def generated(kc, capture, folder):
    source = kc.ok("kc-locate", capture).digest
    assert kc.show(source)["language"] == "triton"
    kc.ok("kc-generate", source, "--output", folder)
    return folder


def judge(kc, project):
    """Compile the variant and return what the verdict prints."""
    kc.ok("make", "-C", project, "recompile", f"PYTHON={sys.executable}")
    return kc.run("make", "-C", project, "validate-variant").err


def edit(path, *changes):
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


def test_a_kernel_is_edited_in_python(kc, program, tmp_path):
    capture = captured(kc, "saxpy", program(TRITON_SAXPY), "--dispatch", 2).digest
    assert kc.show(capture)["kernel"]["triton"]["function_name"] == "saxpy"
    project = generated(kc, capture, tmp_path / "project")
    variant = project / "kernel_variant.py"
    assert "Result: PASS" in judge(kc, project)
    edit(variant, ("tl.load(y + at, mask) +", "0.0 + tl.load(y + at, mask) +"))
    assert "Result: PASS" in judge(kc, project)

    # 98 programs of 1,024 elements, then 196 of 512.
    edit(project / "reproducer.py", ("'num_warps': 4", "'num_warps': 8"), ("'BLOCK': 1024", "'BLOCK': 512"))
    assert "Result: FAIL" in judge(kc, project)
    edit(project / "reproducer.py", ("GRID = (98, 1, 1)", "GRID = (196, 1, 1)"))
    said = judge(kc, project)
    assert "launched as 196 x 1 x 1 blocks of 256 x 1 x 1" in said
    assert "Result: PASS" in said
    kc.ok("make", "-C", project, "bench")

    edit(variant, ("factor * ", "2 * factor * "))
    assert "Result: FAIL" in judge(kc, project)


def test_the_chosen_configuration_is_captured(kc, program, tmp_path):
    done = captured(kc, "matmul", program(TUNED))
    words = done.err.split()
    size, warps = words[words.index("chosen") + 1 :][:2]
    capture = kc.show(done.digest)
    assert capture["launch"]["grid_blocks"] == [512 // int(size), 512 // int(size), 1]
    assert capture["launch"]["block_work_items"] == [32 * int(warps), 1, 1]
    assert capture["kernel"]["triton"]["autotuned"]
    assert "Result: PASS" in judge(kc, generated(kc, done.digest, tmp_path / "project"))


def test_a_profile_counts_trials_apart(kc, program):
    profile = kc.show(kc.ok("kc-profile", "--", *program(TUNED)).digest)
    (kernel,) = (each for each in profile["kernels"] if each["name"] == "matmul")
    assert kernel["calls"] == 3
    assert len(kernel["launch_shapes"]) == 1
    assert profile["trials"] > 100


def test_a_kernel_of_torch_compile(kc, program, tmp_path):
    done = captured(kc, "triton_", program(COMPILED), "--dispatch", 1)
    assert kc.show(done.digest)["kernel"]["triton"] is not None
    assert kc.show(done.digest)["launch"]["triton"] is not None, done.err
    project = generated(kc, done.digest, tmp_path / "project")
    assert "Result: PASS" in judge(kc, project)
    edit(project / "kernel_variant.py", ("sin(", "sin(1.0 * "))
    assert "Result: PASS" in judge(kc, project)
    edit(project / "kernel_variant.py", ("sin(", "cos("))
    assert "Result: FAIL" in judge(kc, project)


def test_a_kernel_that_torch_takes_from_its_cache(kc, program, tmp_path):
    """The second run of a program compiles nothing: torch launches a file of its cache, without Triton."""
    command = program(COMPILED)
    subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=300)
    done = captured(kc, "triton_", command, "--dispatch", 1)
    capture = kc.show(done.digest)
    assert capture["kernel"]["triton"]["function_name"].startswith("triton_")
    arguments = {each["name"]: each for each in capture["launch"]["triton"]["arguments"]}
    assert arguments["in_ptr0"]["tensor"]["shape"] == [1024, 4096]
    assert arguments["in_ptr0"]["tensor"]["dtype"] == "float32"
    project = generated(kc, done.digest, tmp_path / "project")
    assert "Result: PASS" in judge(kc, project)
    said = kc.ok(sys.executable, project / "reproducer.py", "--run").out
    assert {line.split(": ", 1)[1] for line in said.splitlines()} == {"equal"}
    profile = kc.show(kc.ok("kc-profile", "--", *command).digest)
    (kernel,) = (each for each in profile["kernels"] if each["name"].startswith("triton_"))
    assert {each["name"] for each in kernel["triton"][0]["constexprs"]} >= {"XBLOCK"}


def test_templates_that_torch_only_tries_are_trials(kc, program):
    command = program(TEMPLATES)
    done = captured(kc, "triton_tem", command)
    assert "trial" not in done.err
    assert kc.show(done.digest)["launch"]["triton"] is not None, done.err
    profile = kc.show(kc.ok("kc-profile", "--", *command).digest)
    rows = [each for each in profile["kernels"] if each["name"].startswith("triton_tem")]
    assert [each["calls"] for each in rows] == [3]


def test_a_template_that_a_worker_compiled_is_recorded_from_the_cache_too(kc, program, tmp_path):
    """Workers of torch use another assembler than Triton does in the program."""
    command = program(TEMPLATES)
    subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=300)
    done = captured(kc, "triton_tem", command)
    assert kc.show(done.digest)["launch"]["triton"] is not None, done.err
    project = generated(kc, done.digest, tmp_path / "project")
    assert "Result: PASS" in judge(kc, project)


def test_a_kernel_in_a_cuda_graph(kc, program, tmp_path):
    done = captured(kc, "scale", program(GRAPHED), "--dispatch", 2)
    capture = kc.show(done.digest)
    assert capture["dispatch"]["from_graph"]
    assert [each["name"] for each in capture["launch"]["triton"]["arguments"]] == ["x", "out", "n"]
    project = generated(kc, done.digest, tmp_path / "project")
    assert "Result: PASS" in judge(kc, project)
    edit(project / "kernel_variant.py", ("* 3.0", "* 1.5 * 2.0"))
    assert "Result: PASS" in judge(kc, project)
    edit(project / "kernel_variant.py", ("* 1.5 *", "* 2.5 *"))
    assert "Result: FAIL" in judge(kc, project)


def test_one_configuration_is_captured(kc, program):
    digest = captured(
        kc, "matmul", program(TUNED), "--trials", "--configuration", "SIZE=16, num_warps=2"
    ).digest
    constants = {each["name"]: each["text"] for each in kc.show(digest)["kernel"]["triton"]["constexprs"]}
    assert constants["SIZE"] == "16"
    assert kc.show(digest)["launch"]["block_work_items"] == [64, 1, 1]
