"""The order of waves: as on hardware unless it is asked for otherwise, and then repeatable."""

from __future__ import annotations

import shlex
import subprocess

import pytest
import softgpu
from programs import OPTS, TARGETS, Build, programs

PROCESSES = {program.name: program for program in programs("processes")}
HIP = {program.name: program for program in programs("hip")}
RACES = [
    pytest.param(Build(PROCESSES["pivot_race"], target, opt), id=f"pivot_race-{target}-{opt}")
    for target, opt in zip(TARGETS, OPTS, strict=True)
]


def run_under(schedule: str, build: Build, executable, workers: str = "") -> subprocess.CompletedProcess[str]:
    variables = {"KERNCAP_SOFTGPU_SCHEDULE": schedule, "KERNCAP_SOFTGPU_WORKERS": workers}
    return softgpu.run([str(executable(build))], build.target, variables=variables)


@pytest.mark.parametrize("build", RACES)
def test_waves_leave_a_barrier_together_by_default(build, executable):
    softgpu.check(softgpu.run([str(executable(build))], build.target))
    softgpu.check(run_under("hardware-like", build, executable))


@pytest.mark.parametrize("build", RACES)
def test_adversarial_schedule_shows_a_race_and_repeats(build, executable):
    first, again, other = (run_under(f"adversarial:{seed}", build, executable) for seed in (7, 7, 8))
    assert first.returncode == 1, first.stdout
    assert again.stdout == first.stdout
    assert other.returncode == 1, other.stdout
    assert other.stdout != first.stdout


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(Build(HIP[name], target, "O3"), id=f"{name}-{target}")
        for name, target in (("lds_reduction", "gfx90a"), ("grid_sync", "gfx942"), ("spin_waits", "gfx90a"),
                             ("histogram_int", "gfx942"))
    ],
)  # fmt: skip
@pytest.mark.parametrize("workers", ["1", "3"])
def test_programs_without_races_are_right_under_any_schedule(build, workers, executable):
    softgpu.check(run_under("adversarial:3", build, executable, workers))


def launch(*words: str) -> subprocess.CompletedProcess[str]:
    command = ["kc-softgpu", *words, "--", "sh", "-c", "echo $KERNCAP_SOFTGPU_SCHEDULE"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_launcher_says_the_seed_that_it_chose():
    for words in (
        ("--target", "gfx942", "--schedule", "adversarial"),
        ("--schedule=adversarial", "--gpus", "2"),
    ):
        done = launch(*words)
        assert done.returncode == 0, done.stderr
        chosen = done.stdout.strip()
        assert chosen.startswith("adversarial:")
        assert int(chosen.partition(":")[2]) >= 0
        lead, again = done.stderr.strip().split(": ", 1)
        assert lead == "to repeat this run"
        assert shlex.split(again)[: len(words) + 1] == [
            "kc-softgpu",
            *(word.replace("adversarial", chosen) for word in words),
        ]
        done = subprocess.run(shlex.split(again), capture_output=True, text=True, check=False, timeout=60)
        assert (done.stdout.strip(), done.stderr) == (chosen, "")


def test_launcher_passes_a_seed_on():
    done = launch("--schedule", "adversarial:12")
    assert (done.returncode, done.stdout, done.stderr) == (0, "adversarial:12\n", "")


@pytest.mark.parametrize(
    "text", ["random", "adversarial:", "adversarial:-1", "adversarial:x", f"adversarial:{2**64}"]
)
def test_unknown_schedules_are_refused(text):
    done = launch("--schedule", text)
    assert done.returncode == 2, done.stderr
    assert f"--schedule {text}" in done.stderr
