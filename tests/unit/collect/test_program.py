"""The program under profile or capture: what is recorded of its environment, and that it is ended in time."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from kerncap_stages.collect import program as program_module
from kerncap_stages.collect.connection import LibrarySettings
from kerncap_stages.collect.profile_session import ProfileSession
from kerncap_stages.collect.program import ProgramSpec, RunningProgram
from kerncap_stages.collect.protocol import Mode
from kerncap_stages.collect.server import Collector


@pytest.mark.parametrize(
    "name", ["CUBLASLT_WORKSPACE_SIZE", "NVIDIA_TF32_OVERRIDE", "TORCHINDUCTOR_MAX_AUTOTUNE", "HSA_XNACK"]
)
def test_what_decides_which_kernels_run_is_recorded_and_nothing_else(monkeypatch, name):
    monkeypatch.setenv(name, "1")
    monkeypatch.setenv("VLLM_API_KEY", "secret")
    program = RunningProgram(ProgramSpec(("true",)), {})
    try:
        recorded = program.describe().environment
    finally:
        program.stop()
        os.close(program.pidfd)
    assert recorded[name] == "1"
    assert "VLLM_API_KEY" not in recorded


def test_a_preloaded_library_comes_after_those_of_the_user(tmp_path):
    """Some, such as an address sanitizer, insist on being the first."""
    command, variables = ("sh", "-c", 'echo "$LD_PRELOAD"'), {"LD_PRELOAD": "libm.so.6"}
    spec = ProgramSpec(command, environment=variables, stdout=tmp_path / "out")
    program = RunningProgram(spec, {}, Path("libc.so.6"))
    program._process.wait()
    os.close(program.pidfd)
    assert (tmp_path / "out").read_text().endswith("libm.so.6:libc.so.6\n")
    assert program.describe().environment["LD_PRELOAD"] == "libm.so.6"


@pytest.fixture
def unkillable(monkeypatch):
    """A program whose driver never lets it go; with limits that a test can wait for."""
    monkeypatch.setattr(program_module, "_GRACE_S", 0.01)
    monkeypatch.setattr(program_module, "_KILL_WAIT_S", 0.01)
    started: list[RunningProgram] = []

    def let_live(self, number):
        if not started:
            started.append(self)
        assert number in (signal.SIGTERM, signal.SIGKILL)

    monkeypatch.setattr(RunningProgram, "_signal_group", let_live)
    yield ProgramSpec(("sleep", "1000"))
    for program in started:
        program._process.kill()
        program._process.wait()


def test_a_killed_program_that_stays_is_named_and_waited_for_no_longer(unkillable):
    program = RunningProgram(unkillable, {})
    program.stop()
    (text,) = program.explain_held()
    assert f"sleep (process {program._process.pid}) was killed but has not ended" in text
    assert (program.exit_code, program.exit_signal) == (None, None)
    assert program.describe_end() == "was killed and has not ended"
    program.stop()  # at once
    os.close(program.pidfd)


def test_a_collector_ends_though_its_killed_program_stays(unkillable):
    collector = Collector(unkillable, LibrarySettings(Mode.PROFILE), ProfileSession)
    assert list(collector.read_events(0.01)) == []
    assert collector.timed_out
    collector.close()
    assert list(collector.program.explain_held())


def test_what_the_software_gpu_did_not_run_is_said_once_the_program_is_over():
    script = 'for i in 1 2 2 $(seq 3 13); do echo "kernel $i did not run"; done >"$KERNCAP_SOFTGPU_REFUSALS"'
    collector = Collector(ProgramSpec(("sh", "-c", script)), LibrarySettings(Mode.PROFILE), ProfileSession)
    assert list(collector.read_events()) == []
    collector.close()
    told = list(collector.list_final_warnings())
    assert [text.rpartition(": ")[2] for text in told] == [
        *(f"kernel {i} did not run" for i in range(1, 11)),
        "see 3 more messages above",
    ]
