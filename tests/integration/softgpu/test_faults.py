"""What a GPU must refuse ends as ROCr's own error, with a message that says where, never as our crash."""

from __future__ import annotations

import re
import signal
import subprocess
from dataclasses import dataclass

import pytest
import softgpu
from programs import Build, programs

FAULTS = {program.name: program for program in programs("faults")}

MEMORY_CASES = (
    "completion-signal", "dependency", "copy-from-unregistered", "copy-to-unregistered", "copy-from-unmapped",
    "copy-beyond-the-end", "copy-to-read-only",
)  # fmt: skip


@dataclass(frozen=True)
class Expected:
    """What our line must say of a kernel's fault beside pc and target, and what ROCr says in its own."""

    kernel: str
    instruction: str  # its mnemonic, or the words of one that has none
    reason: str
    access: str = ""
    address: str = ""  # empty: within the range that the program prints
    theirs: str = "Memory access fault"


NOT_GIVEN = "which this GPU was not given access to"
KERNEL_CASES = {
    "stray-write": Expected("write_at", "global_store_dword", "unmapped address", "write", "0x123456789000"),
    "stray-read": Expected("read_at", "global_load_dword", "unmapped address", "read", "0x123456789000"),
    "null": Expected("write_at", "global_store_dword", "unmapped address", "write", "0x0"),
    "beyond-the-end": Expected("write_at", "global_store_dword", "unmapped address", "write"),
    "freed": Expected("write_at", "global_store_dword", "unmapped address", "write"),
    "host-memory": Expected("read_at", "global_load_dword", f"the host's memory, {NOT_GIVEN}", "read"),
    "other-gpu": Expected("write_at", "global_store_dword", "memory of another GPU's", "write"),
    "unmapped-under-it": Expected("for_ever", "flat_load_dword", "has unmapped", "read"),
    "unmapped-with-handler": Expected("for_ever", "flat_load_dword", "has unmapped", "read"),
    "unmapped-before-it": Expected("read_at", "global_load_dword", "has unmapped", "read"),
    "registered-read-only": Expected("write_at", "global_store_dword", "this GPU may only read", "write"),
    "made-read-only": Expected("write_at", "global_store_dword", "the program may only read", "write"),
    "made-read-only-under-atomics": Expected(
        "add_for_ever", "global_atomic_add", "the program may only read", "atomic"
    ),
    "closed": Expected("read_at", "global_load_dword", "has closed to all access", "read"),
    "lds": Expected("beyond_lds", "ds_read_b32", "beyond the work-group's LDS", "read", "0x61a84",
                    "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION"),
    "trap": Expected("give_up", "s_trap", "trap 0x2", "", "0x2", "HSA_STATUS_ERROR_EXCEPTION"),
    "unknown-instruction": Expected("unknown_instruction", "words 0xbfffffff", "unknown instruction", "",
                                    "0xbfffffff", "HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION"),
}  # fmt: skip


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
    wanted = KERNEL_CASES[case]
    variables = {"KERNCAP_SOFTGPU_LDS": "stop"} if case == "lds" else {}
    done = softgpu.run([str(executable(build)), case], "gfx90a", gpus=2 if case == "other-gpu" else 1,
                       variables=variables)  # fmt: skip
    report = f"{done.args}\n{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.returncode in (-signal.SIGABRT, 128 + signal.SIGABRT), report
    line = next((line for line in done.stderr.splitlines() if wanted.reason in line), None)
    assert line, report
    assert f"(anonymous namespace)::{wanted.kernel}(" in line, report
    assert f": {wanted.instruction}" in line, report
    assert f" by a{'n' if wanted.access == 'atomic' else ''} {wanted.access}" in line or not wanted.access
    assert "target gfx90a" in line, report
    address = wanted.address or reported_address(line)
    assert address in line, report
    if not wanted.address:
        begin, end = (int(word, 16) for word in re.search(r"range (\S+) (\S+)", done.stderr).groups())
        assert begin <= int(address, 16) < end, report
    assert wanted.theirs in done.stderr, report


@pytest.mark.parametrize(
    "build", [pytest.param(Build(FAULTS["kernel_faults"], "gfx90a", "O3"), id="kernel_faults")]
)
@pytest.mark.parametrize(("option", "lines"), [((), 0), (("--lds", "report"), 2)], ids=["default", "report"])
def test_access_beyond_the_lds_goes_on_and_is_named_once_if_asked(build, executable, option, lines):
    """One store and one load of 64 work-groups."""
    launcher, *words = softgpu.command_for([str(executable(build)), "lds"], "gfx90a")
    done = subprocess.run([launcher, *option, *words], capture_output=True, text=True, check=False,
                          timeout=softgpu.TIME_LIMIT_S)  # fmt: skip
    report = f"{done.args}\n{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, report
    told = [line for line in done.stderr.splitlines() if "beyond the work-group's LDS" in line]
    assert len(told) == lines, report
    accesses = [("0x61a80 (4 bytes) by a write", "ds_write"), ("0x61a84 (4 bytes) by a read", "ds_read")]
    for line, (access, instruction) in zip(sorted(told), accesses, strict=False):
        for word in ("(anonymous namespace)::beyond_lds(", access, instruction, " at pc 0x", "work-group ("):
            assert word in line, (word, report)


@pytest.mark.parametrize(
    "build", [pytest.param(Build(FAULTS["kernel_faults"], "gfx90a", "O3"), id="kernel_faults")]
)
def test_program_that_waits_for_a_hung_kernel_ends_by_a_signal(build, executable):
    command = softgpu.command_for([str(executable(build)), "hung"], "gfx90a")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr is not None
        try:
            assert program.stderr.readline().startswith("range ")  # it has begun
            program.terminate()
            assert program.wait(softgpu.TIME_LIMIT_S) == -signal.SIGTERM
        finally:
            program.kill()


def reported_address(line: str) -> str:
    return re.search(r"(?:address|right to it) (0x[0-9a-f]+)", line)[1]


@pytest.mark.parametrize("kernel", ["read_at", "write_at"])
@pytest.mark.parametrize(
    "build", [pytest.param(Build(FAULTS["kernel_faults"], "gfx90a", "O3"), id="kernel_faults")]
)
def test_program_counter_is_the_instruction_s(build, executable, kernel):
    """The same instruction, stopped by the page table and by the host, at the same place in its page."""
    offsets = set()
    for case in [name for name, wanted in KERNEL_CASES.items() if wanted.kernel == kernel]:
        done = softgpu.run([str(executable(build)), case], "gfx90a", gpus=2 if case == "other-gpu" else 1)
        offsets.add(int(re.search(r" at pc (0x[0-9a-f]+)", done.stderr)[1], 16) % 4096)
    assert len(offsets) == 1, offsets


# What a program was compiled for, and the GPU that it meets: another chip, one without a feature,
# one of another family.
OTHER_CODE = [
    ("gfx90a", "gfx942"),
    ("gfx90a:xnack+", "gfx90a"),
    ("gfx90a:sramecc-", "gfx90a"),
    ("gfx9-4-generic", "gfx90a"),
]


@pytest.mark.parametrize(
    ("build", "target"),
    [
        pytest.param(
            Build(FAULTS["kernel_faults"], code, "O3", rocm=rocm),
            target,
            id=f"{rocm or '6.4'}-{code}-{target}",
        )
        for rocm in ("", "7.2")
        for code, target in OTHER_CODE
    ],
)
def test_program_for_another_target_gets_an_error(build, target, executable):
    """HIP 7.2 alone would end it with a segmentation fault."""
    done = softgpu.run([str(executable(build)), "trap"], target, rocm=build.rocm)
    assert done.returncode == 3, done.stderr
    assert "went on: " in done.stderr, done.stderr  # the launch failed, nothing reached the device
    assert f"not for {target}" in done.stderr, done.stderr
    assert f"--{build.target} " in done.stderr, done.stderr
    assert f"kerncap software GPU: {target}" not in done.stderr, done.stderr


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(Build(FAULTS["kernel_faults"], "gfx9-4-generic", "O3", rocm=rocm), id=rocm or "6.4")
        for rocm in ("", "7.2")
    ],
)
def test_code_of_the_family_of_the_target_runs(build, executable):
    done = softgpu.run([str(executable(build)), "null"], "gfx942", rocm=build.rocm)
    assert "write_at(int*, int): access to an unmapped address 0x0" in done.stderr, done.stderr
