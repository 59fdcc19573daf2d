"""The call in Python of the launch that is captured: its tensors, its values and its programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from triton_package import generate_and_judge

if TYPE_CHECKING:
    from pathlib import Path

START = """
import ctypes
import numpy as np, triton, triton.language as tl
from hip_arrays import Array, View, driver

@triton.jit
def scale(x, out, rows, columns, down, right, factor, on, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    row, column = at // columns, at % columns
    values = tl.load(x + row * down + column * right, mask=at < rows * columns)
    if on:
        values = values * factor
    tl.store(out + at, values, mask=at < rows * columns)

"""
TRANSPOSED = """
x = Array(np.arange(40, dtype=np.float32))
out = Array(np.zeros(12, np.float32))
turned = View(x, (4, 3), (1, 8), 2)
for step in range(5):
    scale[(1,)](turned, out, 4, 3, *turned.stride(), 0.5 * step, step % 2 == 1, SIZE=16)
print(out.read())
"""
COUNTED = """
asked = 0

class Counting(View):
    def stride(self):
        global asked
        asked += 1
        return (1,)

x, out = Array(np.ones(16, np.float32)), Array(np.zeros(16, np.float32))
for step in range(100):
    scale[(1,)](Counting(x, (16,), (1,)), out, 4, 4, 4, 1, float(step), True, SIZE=16)
out.read()
open("asked", "w").write(str(asked))
"""
ODD = """
class Odd(View):
    def stride(self):
        raise RuntimeError("I have none")

x, out = Array(np.ones(16, np.float32)), Array(np.zeros(16, np.float32))
scale[(1,)](Odd(x, (16,), (1,)), out, 4, 4, 4, 1, 2.0, True, SIZE=16)
out.read()
"""
GRAPH = """
hip = ctypes.CDLL("libamdhip64.so")

def call(name, *arguments):
    code = getattr(hip, name)(*arguments)
    if code != 0:
        raise RuntimeError(f"{name}: {code}")

x, out = Array(np.arange(16, dtype=np.float32)), Array(np.zeros(16, np.float32))
stream, graph, ready = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
call("hipStreamCreate", ctypes.byref(stream))
other = Array(np.ones(16, np.float32))
scale.warmup(x, out, 4, 4, 4, 1, 3.0, True, SIZE=16, grid=(1,)).run  # loaded before the stream is captured
driver.active.get_current_stream = lambda _device: stream.value
call("hipStreamBeginCapture", stream, 0)
scale[(1,)](x, out, 4, 4, 4, 1, 3.0, True, SIZE=16)
call("hipStreamEndCapture", stream, ctypes.byref(graph))
call("hipGraphInstantiate", ctypes.byref(ready), graph, None, None, ctypes.c_size_t(0))
for launch in range(3):
    call("hipGraphLaunch", ready, stream)
call("hipStreamSynchronize", stream)
if not (out.read() == 3 * np.arange(16)).all():
    raise SystemExit(str(out.read()))
"""


@pytest.fixture
def program(tmp_path: Path):
    def write(text: str) -> tuple[str, Path]:
        path = tmp_path / "program.py"
        path.write_text(START + text)
        return sys.executable, path

    return write


def read_call(stages, digest):
    call = stages.show(digest)["launch"]["triton"]
    return call, {argument["name"]: argument for argument in call["arguments"]}


def test_the_captured_launch_has_its_call(with_triton, program):
    digests = with_triton.capture(
        "scale", *program(TRANSPOSED), options=("--dispatch", 1, "--every", 2, "--count", 2)
    )
    for digest, step in zip(digests, (1, 3), strict=True):
        call, arguments = read_call(with_triton, digest)
        assert call["grid_programs"] == [1, 1, 1]
        assert list(arguments) == [
            "x",
            "out",
            "rows",
            "columns",
            "right",
            "factor",
            "on",
        ]  # down is 1: a constant
        x, out = arguments["x"]["tensor"], arguments["out"]["tensor"]
        assert (x["dtype"], x["shape"], x["strides"]) == ("float32", [4, 3], [1, 8])
        assert x["storage_offset_elements"] == 2
        assert (out["shape"], out["strides"], out["storage_offset_elements"]) == ([12], None, None)
        captured = with_triton.show(digest)
        assert bytes.fromhex(captured["kernarg"])[:8] == x["address"].to_bytes(8, "little")
        assert arguments["factor"]["text"] == repr(0.5 * step)
        assert (arguments["on"]["type_name"], arguments["on"]["text"]) == ("bool", "True")
    page = with_triton.run("show", digests[0]).must().out
    assert "Call in Python" in page
    assert "4, 3" in page


def test_launches_long_before_and_after_are_not_looked_at(with_triton, program):
    (digest,) = with_triton.capture("scale", *program(COUNTED), options=("--dispatch", 50))
    _, arguments = read_call(with_triton, digest)
    assert arguments["factor"]["text"] == "50.0"
    asked = int((with_triton.folder / "asked").read_text())
    assert 1 <= asked <= 30  # 16 before, and what the runtime had not submitted yet


def test_an_argument_that_cannot_be_described_says_so(with_triton, program):
    (digest,) = with_triton.capture("scale", *program(ODD))
    _, arguments = read_call(with_triton, digest)
    assert arguments["x"]["unknown"] == "RuntimeError: I have none"
    assert arguments["x"]["tensor"] is None
    assert arguments["out"]["tensor"]["shape"] == [16]
    assert "I have none" in with_triton.run("show", digest).must().out


def test_a_launch_of_a_graph_has_the_call_that_recorded_it(with_triton, program):
    (digest,) = with_triton.capture("scale", *program(GRAPH), options=("--dispatch", 2))
    assert with_triton.show(digest)["dispatch"]["index_of_kernel"] == 2
    _, arguments = read_call(with_triton, digest)
    assert arguments["factor"]["text"] == "3.0"
    wrong, right = ("* (factor + 0.0)", "* factor + 1"), ("* factor", "* (factor + 0.0)")
    generate_and_judge(with_triton, digest, with_triton.folder / "project", wrong, right)
