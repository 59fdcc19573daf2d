"""What is recorded of the environment that a program ran in."""

from __future__ import annotations

import os

import pytest

from kerncap_stages.collector.program import ProgramSpec, RunningProgram


@pytest.mark.parametrize(
    "name", ["CUBLASLT_WORKSPACE_SIZE", "NVIDIA_TF32_OVERRIDE", "TORCHINDUCTOR_MAX_AUTOTUNE", "HSA_XNACK"]
)
def test_what_decides_which_kernels_run_is_recorded_and_nothing_else(monkeypatch, name):
    monkeypatch.setenv(name, "1")
    monkeypatch.setenv("VLLM_API_KEY", "secret")
    program = RunningProgram(ProgramSpec(("true",)), {})
    try:
        recorded = program.manifest().environment
    finally:
        program.stop()
        os.close(program.pidfd)
    assert recorded[name] == "1"
    assert "VLLM_API_KEY" not in recorded
