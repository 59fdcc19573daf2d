"""The software GPU where programs spend its time: waits for launches, and short kernels with reductions.

By processor time, of all threads of the program: what a program spends in waiting for the GPU counts, too.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from frame import Figure, Run, at_least, at_most, row
from programs import SOURCES, Build, Program, compile_once
from watching import number

from kerncap_stages.machine.instruction_counts import read_counts
from kerncap_stages.machine.softgpu import SoftGpu

_ROUNDS = 5


@dataclass(frozen=True)
class Launches:
    """What a program took for each launch, in the median of the rounds."""

    cpu_us: float
    wall_us: float
    wave_instructions: float


def measure(kernel: str, count: int, rest_us: int) -> Launches:
    """Run a program that launches a kernel so often, waits each time, and rests before each launch."""
    program = compile_once(Build(Program(SOURCES / "hip/many_waits.hip"), "gfx90a", "O3"))
    rounds = []
    for _ in range(_ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            counted = Path(folder) / "counts"
            environment = SoftGpu("gfx90a").make_environment() | {"KERNCAP_SOFTGPU_COUNT": str(counted)}
            words = [str(word) for word in (program, kernel, count, rest_us)]
            text = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
            counts = [entry.wave_instructions for entry in read_counts(counted) if kernel in entry.kernel]
        rounds.append(
            (number(text, "cpu_us_per_launch"), number(text, "us_per_launch"), statistics.mean(counts))
        )
    cpu, wall, instructions = (statistics.median(column) for column in zip(*rounds, strict=True))
    return Launches(cpu, wall, instructions)


@row("device.wait", "an empty kernel, launched and waited for: processor time", at_most(400, "value"))
def waits(_run: Run) -> Figure:
    figure = measure("empty", 2000, 0)
    return Figure(figure.cpu_us, "us", note=f"{figure.wall_us:.0f} us of wall time")


@row("device.rest", "the same, 2 ms after the last one: processor time", at_most(1500, "value"))
def waits_after_rests(_run: Run) -> Figure:
    figure = measure("empty", 300, 2000)
    return Figure(figure.cpu_us, "us", note=f"{figure.wall_us:.0f} us of wall time, the rest included")


def _add(name: str, kernel: str, what: str) -> None:
    def rate(_run: Run) -> Figure:
        figure = measure(kernel, 300, 0)
        note = f"{figure.wave_instructions / 1000:.0f} thousand a launch"
        return Figure(figure.wave_instructions / figure.cpu_us, "M wave-instructions/s", note=note)

    row(name, f"{what}, waited for each time: for each second of a core", at_least(10, "value"))(rate)


_add("device.softmax", "soft_max", "soft max of 128 rows of 256")
_add("device.scan", "scan", "sums of prefixes of 128 rows of 256")
