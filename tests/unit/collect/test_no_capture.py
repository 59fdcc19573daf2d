"""The error at the end of a run that gave no capture."""

from __future__ import annotations

import os
import time

import pytest

from kerncap_stages.collect.capture_events import CaptureFailed, ProcessSummary
from kerncap_stages.collect.no_capture import explain_no_capture
from kerncap_stages.collect.program import ProgramSpec, RunningProgram
from kerncap_stages.collect.protocol import FailureCode
from kerncap_stages.errors import AnswerIsNo, Refused
from kerncap_stages.manifests.capture import NameMatch, Selection


def ended(line):
    program = RunningProgram(ProgramSpec(("sh", "-c", line)), {})
    while not program.has_ended():
        time.sleep(0.01)
    os.close(program.pidfd)
    return program


@pytest.mark.parametrize(
    ("line", "end"),
    [("exit 0", ""), ("exit 3", "; sh ended with exit code 3"), ("kill -9 $$", "; sh ended by SIGKILL")],
)
def test_a_refusal_also_tells_that_the_program_ended_badly(line, end):
    program = ended(line)
    refusal = CaptureFailed(1, "it has textures", code=FailureCode.REFUSED)
    error = explain_no_capture([], program, [refusal], [])
    assert isinstance(error, Refused)
    assert str(error) == f"no capture was made: it has textures{end}"


@pytest.mark.parametrize(("backend", "says"), [("cuda", "`--hold`"), ("hsa", "hipDeviceSynchronize()")])
def test_a_program_that_ends_too_early_gets_the_hint_that_helps_there(backend, says):
    """On AMD GPUs the program always waits until all is copied: `--hold` changes nothing."""
    ended_early = CaptureFailed(1, "the process ended in the middle of a capture", process_ended=True)
    process = ProcessSummary(1, backend, {"inner"}, [1])
    selection = Selection(match=NameMatch.SUBSTRING, pattern="inner")
    for line, failures in (("exit 3", [ended_early]), ("exit 0", [ended_early]), ("exit 0", [])):
        error = explain_no_capture([selection], ended(line), failures, [process])
        assert says in (error.hint or "")
        assert ("--hold" in (error.hint or "")) is (backend == "cuda")


@pytest.mark.parametrize(
    ("backend", "pattern", "says"),
    [("cuda", "inner", True), ("hsa", "inner", False), ("cuda", "other", False)],
)
def test_a_kernel_that_was_loaded_and_not_seen_may_have_been_launched_on_the_device(backend, pattern, says):
    selection = Selection(match=NameMatch.SUBSTRING, pattern=pattern)
    process = ProcessSummary(1, backend, {"inner(int*)", "outer(int*)"}, [0])
    error = explain_no_capture([selection], ended("exit 0"), [], [process])
    assert isinstance(error, AnswerIsNo)
    assert ("kernels and graphs that other kernels launch on the device" in str(error)) is says


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        ([((4, 1, 1), (64, 1, 1))], "never in the shape of `--grid-blocks`"),
        ([], "never dispatched a kernel that matches 'inner' and was compiled with the values"),
    ],
)
def test_a_configuration_that_was_loaded_is_not_denied(shapes, says):
    selection = Selection(match=NameMatch.SUBSTRING, pattern="inner", grid_blocks=(7, 1, 1))
    process = ProcessSummary(1, "hsa", {"inner"}, [0], other_shapes=shapes, has_configuration=True)
    other = ProcessSummary(2, "hsa", {"inner"}, [0], other_configurations=["SIZE=64"])
    error = explain_no_capture([selection], ended("exit 0"), [], [process, other])
    assert says in str(error)
    denied = explain_no_capture([selection], ended("exit 0"), [], [other])
    assert "none with the values of `--configuration`: SIZE=64" in str(denied)


def test_a_kernel_that_an_autotuner_only_tried_is_told():
    selection = Selection(match=NameMatch.SUBSTRING, pattern="inner")
    process = ProcessSummary(1, "hsa", {"inner(int*)"}, [0], trials=12)
    error = explain_no_capture([selection], ended("exit 0"), [], [process])
    assert isinstance(error, AnswerIsNo)
    assert "only where an autotuner tried configurations, 12 times" in str(error)
    assert "`--trials`" in (error.hint or "")
