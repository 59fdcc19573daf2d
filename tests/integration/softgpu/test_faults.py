"""What a GPU must refuse ends as ROCr's own error, with a message that says where, never as our crash."""

from __future__ import annotations

import signal

import pytest
import softgpu
from programs import Build, programs

FAULTS = {program.name: program for program in programs("faults")}

MEMORY_CASES = (
    "completion-signal", "dependency", "copy-from-unregistered", "copy-to-unregistered", "copy-from-unmapped",
    "copy-beyond-the-end", "copy-to-read-only",
)  # fmt: skip

# case: what our line must say beside kernel, pc and target, and what ROCr says in its own
KERNEL_CASES = {
    "stray-write": ("unmapped address 0x123456789000", "Memory access fault"),
    "stray-read": ("unmapped address 0x123456789000", "Memory access fault"),
    "null": ("unmapped address 0x0", "Memory access fault"),
    "host-memory": ("unmapped address 0x7", "Memory access fault"),
    "unmapped-under-it": ("has unmapped", "Memory access fault"),
    "unmapped-with-handler": ("has unmapped", "Memory access fault"),
    "lds": ("beyond the work-group's LDS", "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION"),
    "trap": ("trap 0x2: s_trap", "HSA_STATUS_ERROR_EXCEPTION"),
    "unknown-instruction": ("words 0xbfffffff", "HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION"),
}


@pytest.mark.parametrize("rocm", ["", "7.2"])
@pytest.mark.parametrize("build", [pytest.param(Build(FAULTS["bad_packets"]), id="bad_packets")])
def test_bad_packets_reach_the_queue_callback(build, executable, rocm):
    softgpu.check(softgpu.run([str(executable(build))], "gfx90a", rocm=rocm))


def bad_code_object_builds() -> list[object]:
    chosen = [("gfx90a", ""), ("gfx942", ""), ("gfx942", "7.2")]
    return [
        pytest.param(
            Build(FAULTS["bad_code_objects"], target, "O1", rocm=rocm), id=f"{target}-{rocm or '6.4'}"
        )
        for target, rocm in chosen
    ]


@pytest.mark.parametrize("build", bad_code_object_builds())
def test_bad_code_objects_are_refused_or_stop_their_queue(build, executable):
    done = softgpu.run([str(executable(build))], build.target, rocm=build.rocm)
    softgpu.check(done)
    ours = [line for line in done.stderr.splitlines() if line.startswith("kerncap software GPU: ")]
    for reason in ("SGPRs", "AGPRs", "31 user SGPRs", "32 lanes", "256 bytes"):
        assert any(reason in line and "victim(int*): cannot start" in line for line in ours), (reason, ours)


@pytest.mark.parametrize("case", MEMORY_CASES)
@pytest.mark.parametrize("build", [pytest.param(Build(FAULTS["memory_faults"]), id="memory_faults")])
def test_stray_access_is_a_gpu_memory_fault(build, executable, case):
    softgpu.check(softgpu.run([str(executable(build)), case], "gfx942"))


@pytest.mark.parametrize("case", KERNEL_CASES)
@pytest.mark.parametrize(
    "build", [pytest.param(Build(FAULTS["kernel_faults"], "gfx90a", "O3"), id="kernel_faults")]
)
def test_kernel_that_fails_is_named(build, executable, case):
    ours, theirs = KERNEL_CASES[case]
    done = softgpu.run([str(executable(build)), case], "gfx90a")
    report = f"{done.args}\n{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.returncode in (-signal.SIGABRT, 128 + signal.SIGABRT), report
    line = next((line for line in done.stderr.splitlines() if ours in line), None)
    assert line, report
    assert "target gfx90a" in line, report
    assert " pc 0x" in line, report
    assert "(anonymous namespace)::" in line, report
    assert theirs in done.stderr, report


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(Build(FAULTS["kernel_faults"], "gfx90a", "O3", rocm=rocm), id=rocm or "6.4")
        for rocm in ("", "7.2")
    ],
)
def test_program_for_another_target_gets_an_error(build, executable):
    """HIP 7.2 alone would end it with a segmentation fault."""
    done = softgpu.run([str(executable(build)), "trap"], "gfx942", rocm=build.rocm)
    assert done.returncode == 3, done.stderr
    assert "went on: " in done.stderr, done.stderr  # the launch failed, nothing reached the device
    assert "not for gfx942" in done.stderr, done.stderr
    assert "gfx90a" in done.stderr, done.stderr
    assert "kerncap software GPU: gfx942" not in done.stderr, done.stderr
