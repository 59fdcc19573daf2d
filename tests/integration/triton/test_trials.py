"""An autotuner launches a kernel in all configurations, and then in the best: only the last is wanted."""

from __future__ import annotations

import sys

import pytest
from triton_package import PROGRAMS

KERNELS = PROGRAMS / "kernels.py"
CHOSEN, TRIED = [2, 2, 1], [4, 4, 1]  # grids of blocks of 32 and of 16 rows


def constants(captured):
    return {each["name"]: each["text"] for each in captured["kernel"]["triton"]["constexprs"]}


def test_the_launch_that_follows_the_trials_is_captured(with_triton):
    stages = with_triton
    (digest,) = stages.capture("matmul_kernel", sys.executable, KERNELS, "matmul")
    captured = stages.show(digest)
    assert captured["launch"]["grid_blocks"] == CHOSEN
    assert constants(captured)["SIZE"] == "32"

    tried = stages.run(
        "capture", "--trials", "-k", "matmul_kernel", "--count", 3, "--", sys.executable, KERNELS, "matmul"
    ).must()
    assert [stages.show(each)["launch"]["grid_blocks"] for each in tried.digests] == [TRIED, CHOSEN, CHOSEN]


def test_a_shape_that_was_only_tried_is_told(with_triton):
    command = (sys.executable, KERNELS, "matmul")
    missed = with_triton.run("capture", "-k", "matmul_kernel", "--grid-blocks", "4,4", "--", *command)
    assert "only where an autotuner tried configurations, 1 time" in missed.must(1).err
    assert "--trials" in missed.err


def test_a_profile_counts_trials_apart(with_triton):
    stages = with_triton
    done = stages.run("profile", "--", sys.executable, KERNELS, "matmul").must()
    assert "not in the table: 2 trials" in done.err
    profile = stages.show(done.digests[0])
    assert profile["trials"] == 2
    assert profile["trials_ns"] > 0
    (kernel,) = (each for each in profile["kernels"] if each["name"] == "matmul_kernel")
    assert kernel["calls"] == 1
    assert kernel["launch_shapes"][0]["grid_blocks"] == CHOSEN


TUNED = """
import numpy as np, triton, triton.language as tl
from arrays import Array

def fail(run, quantiles):
    run()
    raise SystemExit("the clock broke") if {breaks} else triton.OutOfResources(1, 0, "LDS")

@triton.autotune(configs=[triton.Config({{"SIZE": s}}) for s in (16, 32)], key=[], do_bench=fail)
@triton.jit
def tuned(x, SIZE: tl.constexpr):
    tl.store(x + tl.arange(0, SIZE), 1.0)

@triton.jit
def plain(x):
    tl.store(x, 2.0)

x = Array(np.zeros(32, np.float32))
try:
    tuned[(1,)](x)
except SystemExit:
    pass
plain[(1,)](x)
print(x.read()[:2])
"""


@pytest.mark.parametrize("breaks", [True, False])
def test_a_trial_that_fails_is_over_for_all_that(with_triton, tmp_path, breaks):
    script = tmp_path / "script.py"
    script.write_text(TUNED.format(breaks=breaks))
    captures = with_triton.capture("plain", sys.executable, script)
    assert len(captures) == 1
