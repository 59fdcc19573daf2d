"""The clocks that kernels read: the host's, unless they are to jump from dispatch to dispatch."""

from __future__ import annotations

import itertools
import json
import sys

import pytest
import softgpu
from programs import TARGETS, Build, programs

BUILDS = [
    pytest.param(Build(program, target, "O3"), id=target)
    for program in programs("processes")
    if program.name == "clocks"
    for target in TARGETS
]
SHORTEST_S, LONGEST_S = 3, 2 * 3 * 4**8


def read(build: Build, executable, clock: str) -> list[tuple[int, int, int]]:
    done = softgpu.run([str(executable(build))], build.target, variables={"KERNCAP_SOFTGPU_CLOCK": clock})
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    return [
        (int(cycles), int(real), int(within)) for cycles, real, within in (x for x in lines if len(x) == 3)
    ]


@pytest.mark.parametrize("build", BUILDS)
def test_clocks_are_the_hosts(build, executable):
    assert {(cycles // 60, real // 60) for cycles, real, _ in read(build, executable, "steady")} == {(0, 0)}


@pytest.mark.parametrize("build", BUILDS)
def test_clocks_jump_between_dispatches_and_never_within_one(build, executable):
    found = read(build, executable, "jumps:7")
    assert len(found) == 5
    assert [within for _, _, within in found] == [0] * 5
    for (cycles, real, _), (later_cycles, later_real, _) in itertools.pairwise(found):
        assert SHORTEST_S <= later_real - real + 1 <= LONGEST_S + 60
        assert abs((later_cycles - cycles) - (later_real - real)) <= 1


@pytest.mark.parametrize("build", BUILDS[:1])
def test_a_seed_repeats_the_jumps(build, executable):
    first, again, other = (read(build, executable, f"jumps:{seed}") for seed in (7, 7, 8))
    assert all(abs(one[1] - two[1]) < 60 for one, two in zip(first, again, strict=True))
    assert any(abs(one[1] - two[1]) > 60 for one, two in zip(first, other, strict=True))


# Loading ROCr took 11 ms of processor time: it spins to measure the clock by which it waits.
LOADS = """
import ctypes, json, time
began = time.process_time()
rocr = ctypes.CDLL("libhsa-runtime64.so.1")
took = time.process_time() - began
signal, frequency = ctypes.c_uint64(), ctypes.c_uint64()
assert rocr.hsa_init() == 0
assert rocr.hsa_system_get_info(3, ctypes.byref(frequency)) == 0
assert rocr.hsa_signal_create(ctypes.c_int64(1), 0, None, ctypes.byref(signal)) == 0
began = time.monotonic()
rocr.hsa_signal_wait_scacquire(signal, 0, ctypes.c_int64(0), ctypes.c_uint64(frequency.value // 5), 0)
print(json.dumps([took, time.monotonic() - began]))
"""


def test_loading_rocr_does_not_spin_and_its_clock_is_right():
    figures = []
    for _ in range(5):
        done = softgpu.run([sys.executable, "-c", LOADS], "gfx90a")
        assert done.returncode == 0, done.stderr
        figures.append(json.loads(done.stdout))
    assert min(took for took, _ in figures) < 0.007, figures
    assert min(waited for _, waited in figures) == pytest.approx(0.2, abs=0.02), figures
