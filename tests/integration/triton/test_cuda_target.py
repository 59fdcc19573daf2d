"""Triton kernels for NVIDIA GPUs: recorded and compiled again. Triton needs no GPU for that."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from io import BytesIO

import manifest_examples
import pytest
from elftools.elf.elffile import ELFFile
from triton_package import PROGRAMS, make_environment

from kerncap_stages.collect.triton_records import TritonRecords
from kerncap_stages.generate.triton_project import make_triton_project
from kerncap_stages.manifests.environment import Backend
from kerncap_stages.manifests.kernel import CodeObjectFormat
from kerncap_stages.store import Store

COMPILE = """
import sys
from pathlib import Path

import shapes
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def negate(x):
    return -x


@triton.jit
def add_kernel(x, out, n, BLOCK: tl.constexpr, LOW: tl.constexpr, CHANGE: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = CHANGE(tl.load(x + at, mask=at < n)) + shapes.twice(tl.load(out + at, mask=at < n))
    tl.store(out + at, tl.maximum(values, LOW), mask=at < n)


types = {"x": "*fp32", "out": "*fp32", "n": "i32"} | dict.fromkeys(("BLOCK", "LOW", "CHANGE"), "constexpr")
constants = {(3,): 256, (4,): float("-inf"), (5,): negate}
source = ASTSource(add_kernel, types, constants, {(0,): [["tt.divisibility", 16]]})
made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8})
Path(sys.argv[1]).write_bytes(made.kernel)
"""


def instructions(cubin: bytes) -> bytes:
    section = ELFFile(BytesIO(cubin)).get_section_by_name(".text.add_kernel")
    return section.data()


@pytest.fixture
def assembler(triton, tmp_path):
    """An assembler of the program's own, as torch's workers have one. It notes what it is asked."""
    script = tmp_path / "ptxas"
    ours = triton / "triton/backends/nvidia/bin/ptxas"
    script.write_text(f'#!/bin/sh\necho "$@" >> {script}.asked\nexec {ours} "$@"\n')
    script.chmod(0o755)
    return script


@pytest.fixture
def compiled(triton, tmp_path, assembler):
    """The capture of a kernel, as far as its project needs it, its cubin and the variables to compile it."""
    records = TritonRecords(tmp_path / "records")
    variables = {**os.environ, **make_environment(triton, tmp_path / "cache")}
    cubin = tmp_path / "original.cubin"
    assemblers = dict.fromkeys(("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"), str(assembler))
    recorded = variables | records.make_environment(variables, []) | assemblers
    script = tmp_path / "program.py"
    script.write_text(COMPILE)
    subprocess.run([sys.executable, script, cubin], check=True, env=recorded)
    assert records.read_errors() == []
    code = cubin.read_bytes()
    store = Store.open(tmp_path / "store")
    with store.begin_transaction() as transaction:
        digest = manifest_examples.Digest(hashlib.sha256(code).hexdigest())
        found = records.find(digest, transaction)
        assert found is not None
        kernel = manifest_examples.triton_kernel().model_copy(update={
            "triton": found, "mangled_name": "add_kernel",
            "code_object": manifest_examples.code_object(CodeObjectFormat.CUBIN),
        })  # fmt: skip
        capture = manifest_examples.capture(Backend.CUDA).model_copy(update={"kernel": kernel})
        yield capture, code, variables


def test_the_ptx_is_recorded(compiled):
    capture, _, _ = compiled
    triton = capture.kernel.triton
    assert triton.target == ("cuda", "90", 32)
    assert triton.ptx is not None


def test_a_project_compiles_the_same_instructions(compiled, tmp_path, assembler):
    capture, code, variables = compiled
    project = make_triton_project(capture)
    assert project is not None
    assert project.built == "candidate.cubin"
    folder = tmp_path / "project"
    for name, data in project.build(capture, [], None).files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    asked = assembler.with_name("ptxas.asked")
    asked.unlink()
    subprocess.run([sys.executable, folder / "reproducer.py"], check=True, env=variables)
    assert "--gpu-name=sm_90a" in asked.read_text()
    assert instructions((folder / "candidate.cubin").read_bytes()) == instructions(code)
    shape = json.loads((folder / "candidate.shape.json").read_text())
    assert shape["block_work_items"] == [256, 1, 1]
    assert str(PROGRAMS) not in (folder / "kernel_variant.py").read_text()
    # A variant is launched in the captured clusters.
    script = folder / "reproducer.py"
    script.write_text(script.read_text().replace("'num_ctas': 1,", "'num_ctas': 2,"))
    words = [sys.executable, script]
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "num_ctas must stay 1" in done.stderr
