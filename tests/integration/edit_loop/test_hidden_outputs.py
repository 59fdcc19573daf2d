"""A variant that writes nothing is found out wherever the captured kernel writes, and whatever was there."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from programs import SOURCES, Build, Program, compile_once
from stages import Stages

from kerncap_stages.store import Store

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = Program(SOURCES / "edit_loop/hidden_outputs.hip")
KERNELS = (
    "through_a_chain",
    "along_a_list",
    "from_constant",
    "to_exported",
    "to_hidden",
    "through_const",
    "from_outside",
)
BESIDE = "by_stride"
MANY = "to_rows"


def variant(*defines: str) -> Path:
    return compile_once(Build(PROGRAM, "gfx90a", "O3", defines=defines, device_only=True))


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A store with the second dispatch of each kernel, and their digests by name."""
    folder = tmp_path_factory.mktemp("hidden")
    Store.open(folder / "store")
    stages = Stages(folder / "store", folder)
    app = compile_once(Build(PROGRAM, "gfx90a", "O3"))
    names = [word for kernel in (*KERNELS, BESIDE, MANY, "to_nothing") for word in ("--kernel", kernel)]
    made = stages.run("capture", *names, "--dispatch", 1, "--", app).must().digests
    return folder / "store", {
        stages.show(each)["kernel"]["demangled_name"].split("(")[0]: each for each in made
    }


@pytest.fixture
def store(captured: tuple[Path, dict[str, str]], stages: Stages) -> dict[str, str]:
    shutil.rmtree(stages.store)
    shutil.copytree(captured[0], stages.store)
    return captured[1]


@pytest.mark.parametrize("kernel", KERNELS)
def test_only_a_kernel_that_writes_passes(stages: Stages, store: dict[str, str], kernel: str):
    said = stages.run("validate", store[kernel], "--variant", variant()).must().err
    assert "Result: PASS  (byte-exact, 1 of 1 regions identical)" in said
    said = stages.run("validate", store[kernel], "--variant", variant("NOTHING")).must(1).err
    assert "does not write it" in said


def test_an_output_that_arithmetic_leads_to_beside_one_in_sight(stages: Stages, store: dict[str, str]):
    said = stages.run("validate", store[BESIDE], "--variant", variant()).must().err
    assert "Result: PASS  (byte-exact, 2 of 2 regions identical)" in said
    for runs in (2, 3):  # the captured kernel's replay is kept, and says the same
        said = (
            stages.run("validate", store[BESIDE], "--variant", variant("NOTHING"), "--runs", str(runs))
            .must(1)
            .err
        )
        assert "all elements of an output are wrong" in said


def test_the_last_of_many_outputs_behind_a_table_of_addresses(stages: Stages, store: dict[str, str]):
    said = stages.run("validate", store[MANY], "--variant", variant()).must().err
    assert "Result: PASS  (byte-exact, 20 of 20 regions identical)" in said
    said = stages.run("validate", store[MANY], "--variant", variant("NOTHING")).must(1).err
    assert "all elements of an output are wrong" in said


def test_where_nothing_is_written_there_is_nothing_to_judge_by(stages: Stages, store: dict[str, str]):
    said = stages.run("validate", store["to_nothing"], "--variant", variant()).must(1).err
    assert "nothing to compare" in said
    said = stages.run("validate", store["to_nothing"], "--variant", variant(), "--quick").must().err
    assert "nothing to compare" in said
