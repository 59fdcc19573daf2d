"""HIP programs under the real runtime on the software GPU: each checks itself against the CPU."""

from __future__ import annotations

import re

import pytest
import softgpu
from programs import OPTS, TARGETS, Build, compile_once, programs

from kerncap_stages.machine.instruction_counts import read_counts


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


def test_plan_is_the_full_product_and_each_run_has_every_program_at_each_level_for_each_target():
    full, quick = set(), set()
    for parameter in all_builds():
        (build,) = parameter.values
        case = (build.program, build.target, build.opt)
        full.add(case)
        if not parameter.marks:
            quick.add(case)
    everything = programs("hip")
    assert full == {
        (program, target, opt) for program in everything for target in program.targets for opt in OPTS
    }
    for program in everything:
        chosen = {(target, opt) for which, target, opt in quick if which == program}
        assert {target for target, _ in chosen} == set(program.targets), program
        assert {opt for _, opt in chosen} == set(OPTS), program


RECTANGLES = next(program for program in programs("hip") if program.name == "rectangular_copies")


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(Build(RECTANGLES, "gfx90a", "O3", rocm=rocm), id=rocm or "6.4", marks=marks)
        for rocm, marks in (("", ()), ("7.2", pytest.mark.slow))
    ],
)
def test_rectangles_of_hip_reach_the_copy_engine(build, executable):
    variables = {"KERNCAP_SOFTGPU_TRACE": "1"}
    done = softgpu.run([str(executable(build))], build.target, rocm=build.rocm, variables=variables)
    softgpu.check(done)
    assert len(re.findall(r"copy packet at \d+: a rectangle of \d+ bytes", done.stderr)) >= 2, done.stderr


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


ARGUMENTS_IN_REGISTERS = ("-mllvm", "-amdgpu-kernarg-preload-count=16")
VECTOR_ADD = next(program for program in programs("hip") if program.name == "vector_add")


@pytest.mark.parametrize("target", TARGETS)
def test_arguments_that_are_preloaded_need_no_loads(target, tmp_path):
    """The packet processor puts them into registers: fewer scalar loads, and the same results."""
    loads = []
    for flags in ((), ARGUMENTS_IN_REGISTERS):
        path = compile_once(Build(VECTOR_ADD, target, "O3", flags=flags))
        counts = tmp_path / f"counts{len(flags)}.jsonl"
        softgpu.check(softgpu.run([str(path)], target, variables={"KERNCAP_SOFTGPU_COUNT": str(counts)}))
        kernels = [count for count in read_counts(counts) if count.symbol.startswith("_Z")]
        loads.append(sum(count.by_class["smem"] for count in kernels))
    assert 0 <= loads[1] < loads[0], loads
