"""What is left alone behind a capture, when nothing of ours is told of the program's calls any more."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import pytest

from kerncap_stages.machine.cupti import find_cupti_libraries

PROFILED = """
import time, torch
from torch.profiler import ProfilerActivity, profile
x = torch.ones(1 << 16, device="cuda")
for step in range(3):
    x.sin_()
torch.cuda.synchronize()
time.sleep(0.5)
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    x.cos_()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    x.cos_()
for turn in range(2):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        for step in range(10):
            x.cos_()
            graph.replay()
        torch.cuda.synchronize()
    found = [event for event in profiled.events() if "cos" in event.name and event.device_type.name == "CUDA"]
    print("ok" if len(found) == 20 else f"{len(found)} of 20 kernels", flush=True)
"""


@functools.cache  # which each of several runs needs but once
def is_well_alone(*program):
    words = [str(word) for word in program]
    alone = subprocess.run(words, check=True, capture_output=True, text=True, timeout=120)
    return bool(alone.stdout) and set(alone.stdout.split()) <= {"ok", "stays"}


def captured(kc, kernel, *program):
    """Captures the first dispatch of a kernel; what the program printed. Alone all is well, too."""
    assert is_well_alone(*program)
    done = kc.ok("kc-capture", "--kernel", kernel, "--app-stdout", "said", "--", *program)
    assert done.digest
    assert "after the capture" not in done.err  # that it ended as it did
    said = (kc.folder / "said").read_text()
    assert said, done.err
    return said


@pytest.mark.parametrize("_run", range(5))
@pytest.mark.parametrize("threads", [4, 0])
def test_what_launches_all_the_time_loses_nothing(kc, built, threads, _run):
    assert captured(kc, "target", built["goes_on"], threads) == "ok\n"


# At any moment of those in which CUPTI leaves the program.
@pytest.mark.parametrize("late_us", [0, 500, 1000, 1500, 2000, 3000, 4000, 6000, 8000, 12000])
def test_threads_that_begin_behind_the_target_lose_nothing(kc, built, late_us):
    assert captured(kc, "target", built["goes_on"], 2, late_us) == "ok\n"


@pytest.mark.parametrize("_run", range(3))
@pytest.mark.parametrize("mode", ["at_once", "handler"])
def test_a_program_may_end_behind_the_target(kc, built, mode, _run):
    assert captured(kc, "target", built["ends_behind"], mode) == "ok\n"


def test_a_program_goes_on_beside_a_kernel_that_does_not_end(kc, built):
    assert captured(kc, "target", built["spins_behind"]) == "ok\n"


@pytest.mark.parametrize(("threads", "left"), [(1, "gone\n"), (2, "stays\n")])
def test_cupti_leaves_a_program_of_one_thread(kc, built, threads, left):
    assert (
        captured(kc, "target", built["cupti_stays"], next(find_cupti_libraries(os.environ)), threads) == left
    )


def test_a_program_keeps_the_records_that_it_takes_itself(kc, built):
    assert captured(kc, "target", built["own_records"], next(find_cupti_libraries(os.environ))) == "ok\n"


def test_pytorch_can_be_profiled_behind_a_capture(kc, tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    (tmp_path / "program.py").write_text(PROFILED)
    assert captured(kc, "sin_kernel", sys.executable, tmp_path / "program.py") == "ok\nok\n"
