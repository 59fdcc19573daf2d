"""A profile names the functions of Triton kernels, and tells configurations of one kernel apart."""

from __future__ import annotations

import sys

SEVERAL = """
import numpy as np, triton, triton.language as tl
from arrays import Array

def make():
    @triton.jit
    def scale(x, n, FACTOR: tl.constexpr, SIZE: tl.constexpr):
        at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
        tl.store(x + at, tl.load(x + at, at < n) * FACTOR, at < n)
    return scale

@triton.jit
def fill(x, VALUE: tl.constexpr):
    tl.store(x + tl.arange(0, 64), VALUE)

scale = make()
x = Array(np.ones(1024, np.float32))
fill[(1,)](x, 3.0)
for launch in range(3):
    scale[(8,)](x, 1024, 2.0, SIZE=128)
for launch in range(2):
    scale[(4,)](x, 1024, 0.5, SIZE=256, num_warps=8)
x.read()
"""


def test_rows_have_the_function_and_its_configurations(with_triton):
    script = with_triton.folder / "several.py"
    script.write_text(SEVERAL)
    done = with_triton.run("profile", "--", sys.executable, script).must()
    profile = with_triton.show(done.digests[0])
    kernels = {kernel["name"]: kernel for kernel in profile["kernels"]}
    found = {
        (each["function"], *(value["text"] for value in (*each["constexprs"], each["options"][0]))): each[
            "calls"
        ]
        for each in kernels["scale"]["triton"]
    }
    assert found == {
        ("__main__.make.<locals>.scale", "2.0", "128", "4"): 3,
        ("__main__.make.<locals>.scale", "0.5", "256", "8"): 2,
    }
    assert sum(each["total_ns"] for each in kernels["scale"]["triton"]) == kernels["scale"]["total_ns"]
    assert [each["calls"] for each in kernels["fill"]["triton"]] == [1]
    page = with_triton.run("show", done.digests[0], COLUMNS="200").must().out
    assert "scale (2 configurations)" in page
    assert "FACTOR=0.5, SIZE=256, num_warps=8, num_stages=2" in page
    assert "fill (VALUE=3.0, num_warps=4, num_stages=2)" in page


def test_one_of_the_configurations_is_captured(with_triton):
    script = with_triton.folder / "several.py"
    script.write_text(SEVERAL)
    # As the profile's page lists it; the main shape is another configuration's.
    text = "FACTOR=0.5, SIZE=256, num_warps=8, num_stages=2"
    (digest,) = with_triton.capture("scale", sys.executable, script, options=("--configuration", text))
    captured = with_triton.show(digest)
    constants = {each["name"]: each["text"] for each in captured["kernel"]["triton"]["constexprs"]}
    assert (constants["FACTOR"], constants["SIZE"]) == ("0.5", "256")
    assert captured["dispatch"]["index_of_kernel"] == 0
    assert captured["launch"]["block_work_items"][0] == 8 * 64

    words = ("capture", "-k", "scale", "--configuration", "SIZE=512", "--", sys.executable, script)
    missed = with_triton.run(*words).must(1)
    assert "none with the values of `--configuration`" in missed.err
    assert text in missed.err
