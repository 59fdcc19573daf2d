"""PyTorch with each allocator, cuBLAS, Triton, PyTorch's CUDA graphs; kernels that XLA makes for JAX."""

from __future__ import annotations

import math
import os
import sys

import pytest
from nvidia_gpu import TRITON_SAXPY

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

STEPS = """
import torch
torch.manual_seed(0)
layer = torch.nn.Linear(512, 512).cuda()
optimiser = torch.optim.SGD(layer.parameters(), lr=0.01)
data = torch.randn(256, 512, device="cuda")
for step in range(5):
    optimiser.zero_grad()
    loss = torch.nn.functional.gelu(layer(data)).square().mean()
    loss.backward()
    optimiser.step()
torch.cuda.synchronize()
print("ok", float(loss))
"""
MATMUL = """
import torch
a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
b = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
for step in range(3):
    a.mul_(0.5)
    c = a @ b
torch.cuda.synchronize()
print("ok")
"""
GRAPH = """
import torch
x = torch.ones(1 << 16, device="cuda")
y = torch.zeros(1 << 16, device="cuda")
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    y.add_(x.mul_(0.9).sigmoid())
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y.add_(x.mul_(0.9).sigmoid())
for step in range(6):
    graph.replay()
torch.cuda.synchronize()
print("ok", float(y[0]))
"""
JAX_STEPS = """
import jax
import jax.numpy as jnp
import numpy
mix = jax.jit(lambda x, y: jnp.exp(x) * y + x)
softmax = jax.jit(lambda x: jax.nn.softmax(x, axis=-1))
prefix = jax.jit(lambda x: jnp.cumsum(x, axis=-1))
for step in range(3):
    # Other values at each step: what has the value that is written already does not count as written.
    x = jnp.asarray(numpy.linspace(step, step + 1.0, 64 * 512, dtype=numpy.float32).reshape(64, 512))
    jax.block_until_ready((mix(x, x + 1.0), softmax(x), prefix(x)))
print("ok")
"""


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "program.py"
        path.write_text(text)
        return (sys.executable, path)

    return write


def check(kc, program, kernel, dispatch):
    chosen = ("--kernel", kernel, "--dispatch", dispatch)
    done = kc.ok("kc-capture", *chosen, "--", *program)
    # It went on to its end as it does alone.
    assert "ok" in done.err.split(), done.err
    assert "the program ended with" not in done.err, done.err
    replay = kc.show(kc.ok("kc-replay", done.digest).digest)
    assert replay["matches_golden"] is True
    capture = kc.show(done.digest)
    # Else a replay that does nothing would match as well.
    assert sum(region["written_size_bytes"] for region in capture["regions"]) > 0
    return capture


@pytest.mark.parametrize(
    "allocator", ["", "expandable_segments:True", "backend:cudaMallocAsync"],
    ids=["caching", "expandable segments", "async"],
)  # fmt: skip
def test_a_training_step(kc, script, allocator, monkeypatch):
    monkeypatch.setitem(os.environ, "PYTORCH_CUDA_ALLOC_CONF", allocator)
    capture = check(kc, script(STEPS), "elementwise_kernel", 6)
    kinds = {region["kind"] for region in capture["regions"]}
    wanted = {
        "": "device_coarse",
        "expandable_segments:True": "vmem",
        "backend:cudaMallocAsync": "async_pool",
    }
    assert wanted[allocator] in kinds


def test_a_cublas_matmul(kc, script):
    profile = kc.show(kc.ok("kc-profile", "--", *script(MATMUL)).digest)
    kernel = next(row for row in profile["kernels"] if "nvjet" in row["name"])
    capture = check(kc, script(MATMUL), kernel["name"], 1)
    assert math.prod(capture["launch"]["cluster_blocks"] or ()) > 1, kernel["name"]
    located = kc.show(kc.ok("kc-locate", "@capture", "--source-dir", kc.folder).digest)
    assert located["outcome"] == "no_source_trail"
    assert located["files"] == []


def test_a_triton_kernel(kc, script):
    capture = check(kc, script(TRITON_SAXPY), "saxpy", 2)
    assert capture["launch"]["grid_blocks"] == [98, 1, 1]


def test_a_kernel_in_a_pytorch_graph(kc, script):
    capture = check(kc, script(GRAPH), "sigmoid", 3)
    assert capture["dispatch"]["from_graph"] is True


@pytest.mark.parametrize("kernel", ["loop_add_fusion", "triton_softmax", "loop_reduce_window"])
def test_a_kernel_that_xla_makes_for_jax(kc, script, kernel, monkeypatch):
    pytest.importorskip("jax_cuda13_plugin", reason="JAX for CUDA is not installed")
    # JAX else takes most of the GPU's memory at its start, and all of it is captured.
    monkeypatch.setitem(os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    capture = check(kc, script(JAX_STEPS), kernel, 2)
    located = kc.show(kc.ok("kc-locate", "@capture", "--source-dir", kc.folder).digest)
    assert located["outcome"] == "no_source_trail"
    assert capture["kernel"]["demangled_name"].startswith(kernel)
