"""HSA programs under both ROCr versions, with and without SDMA engines and interrupts."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
import softgpu
from programs import TARGETS, Build, programs

# Any two values of any two of the four choices meet in one of these five.
PAIRWISE = {(0, 0, 0, 0), (0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0)}


@dataclass(frozen=True)
class Setting:
    """One way in which a user may run a program."""

    rocm: str
    target: str
    sdma: int
    interrupt: int

    def __str__(self) -> str:
        return f"{self.rocm or '6.4'}-{self.target}-sdma{self.sdma}-irq{self.interrupt}"

    @property
    def variables(self) -> dict[str, str]:
        return {"HSA_ENABLE_SDMA": str(self.sdma), "HSA_ENABLE_INTERRUPT": str(self.interrupt)}


def all_runs() -> list[object]:
    parameters = []
    for program in programs("hsa"):
        for choice in itertools.product((0, 1), repeat=4):
            setting = Setting(("", "7.2")[choice[0]], TARGETS[choice[1]], *choice[2:])
            marks = [] if choice in PAIRWISE else [pytest.mark.slow]
            name = f"{program.name}-{setting}"
            parameters.append(pytest.param(Build(program, rocm=setting.rocm), setting, marks=marks, id=name))
    return parameters


@pytest.mark.parametrize(("build", "setting"), all_runs())
def test_program_works(build, setting, executable):
    path = executable(build)
    softgpu.check(softgpu.run([str(path)], setting.target, rocm=setting.rocm, variables=setting.variables))


@pytest.mark.parametrize("rocm", ["", "7.2"])
@pytest.mark.parametrize("target", TARGETS)
def test_rocminfo_lists_two_gpus(target, rocm):
    if reason := softgpu.refusal(rocm):
        pytest.skip(reason)
    done = softgpu.run(["rocminfo"], target, gpus=2, rocm=rocm)
    assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
    names = [line.split()[-1] for line in done.stdout.splitlines() if line.strip().startswith("Name:")]
    assert names.count(target) == 2, done.stdout
    assert f"amdgcn-amd-amdhsa--{target}" in done.stdout
