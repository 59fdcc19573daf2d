"""HIP programs under the real runtime on the software GPU: each checks itself against the CPU."""

from __future__ import annotations

import pytest
import softgpu
from programs import OPTS, TARGETS, Build, programs


def all_builds() -> list[object]:
    """Each program for each target at each level. Less the slow ones: each target and each level once."""
    parameters = []
    for number, program in enumerate(programs("hip")):
        for target in program.targets:
            for opt in OPTS:
                first = (TARGETS.index(target) + OPTS.index(opt) + number) % 2 == 0
                marks = [] if first or len(program.targets) == 1 else [pytest.mark.slow]
                build = Build(program, target, opt)
                parameters.append(pytest.param(build, marks=marks, id=f"{program.name}-{target}-{opt}"))
    return parameters


@pytest.mark.parametrize("build", all_builds())
def test_program_agrees_with_the_cpu(build, executable):
    path = executable(build)
    softgpu.check(softgpu.run([str(path)], build.target, gpus=build.program.gpus))


def newer_rocm_builds() -> list[object]:
    """The same on ROCm 7.2, whose compiler and runtime are others; targets and levels in turn.

    A few of them in each run.
    """
    few = {"device_globals", "lds_reduction", "streams_events", "vector_add"}
    parameters = []
    for number, program in enumerate(programs("hip")):
        target = program.targets[number % len(program.targets)]
        marks = [] if program.name in few else [pytest.mark.slow]
        opt = "O3" if program.name in few else OPTS[number // len(TARGETS) % len(OPTS)]
        build = Build(program, target, opt, rocm="7.2")
        parameters.append(pytest.param(build, marks=marks, id=f"{program.name}-{target}-{opt}"))
    return parameters


@pytest.mark.parametrize("build", newer_rocm_builds())
def test_program_agrees_with_the_cpu_on_rocm_7_2(build, executable):
    path = executable(build)
    softgpu.check(softgpu.run([str(path)], build.target, gpus=build.program.gpus, rocm=build.rocm))
