"""Every test program: its unchanged source, rebuilt alone, does what the captured kernel did."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from programs import COMMON_FLAGS, SOURCES, TARGETS, Build, Program, compile_once, programs

if TYPE_CHECKING:
    from pathlib import Path

    from stages import Stages

# The runtime's own kernels have no source here.
OWN_KERNELS = r"^(?!__amd_rocclr)"
# The rest is in the full sweep: a case takes about ten seconds.
QUICK = {("vector_add", "gfx90a"), ("virtual_calls", "gfx942"), ("device_globals", "gfx90a")}
# What the others of these programs store are addresses, which a replay alone cannot compare: see below.
KERNELS = {"virtual_calls": "measure", "grid_sync": "rotate_sums"}
WITHOUT_KERNELS = {"rectangular_copies"}  # it only copies
CASES = [
    (program.name, target)
    for program in programs("hip")
    for target in program.targets
    if program.name not in WITHOUT_KERNELS
]


def own_tree(program: Program, target: str, folder: Path) -> Path:
    """The program's source and our headers in a tree of their own, with a compilation database."""
    shutil.copytree(SOURCES / "include", folder / "include")
    source = folder / program.source.name
    shutil.copy(program.source, source)
    flags = [flag.replace(str(SOURCES / "include"), "include") for flag in COMMON_FLAGS]
    words = ["hipcc", f"--offload-arch={target}", "-O3", *flags, "-c", source.name, "-o", "unit.o"]
    entry = {"directory": str(folder), "file": source.name, "arguments": words}
    (folder / "compile_commands.json").write_text(json.dumps([entry]))
    return folder


def rebuilt(stages: Stages, tmp_path: Path, name: str, target: str, kernel: str) -> Path:
    """The project of a program's kernel, with its source unchanged and built again."""
    assert target in TARGETS
    program = Program(SOURCES / f"hip/{name}.hip")
    stages.target, stages.gpus = target, program.gpus
    app = compile_once(Build(program, target, "O3"))
    tree = own_tree(program, target, tmp_path / "tree")
    # A program of several processes gives several captures: one will do.
    capture, *_ = stages.capture(kernel, app, options=("--regex",))
    found = stages.run("locate", capture, "--source-dir", tree, "--json").must().manifest
    assert found["outcome"] == "found", found["explanation"]
    assert found["headers_by_compiler"], found["explanation"]
    stages.run("generate", "@source", "--output", "project").must()
    project = stages.folder / "project"
    done = subprocess.run(["make", "-C", project, "recompile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return project


@pytest.mark.parametrize(
    ("name", "target"),
    [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES],
)
def test_rebuilt_source_replays_to_the_golden_state(stages: Stages, tmp_path: Path, name: str, target: str):
    project = rebuilt(stages, tmp_path, name, target, KERNELS.get(name, OWN_KERNELS))
    replay = stages.replay("project", "--variant", project / "optimized.hsaco").must().manifest
    assert replay["outcome"] == "completed"
    assert replay["matches_golden"] is True


@pytest.mark.parametrize("target", TARGETS)
def test_tables_of_virtual_functions_are_the_same_wherever_they_lie(
    stages: Stages, tmp_path: Path, target: str
):
    project = rebuilt(stages, tmp_path, "virtual_calls", target, "make")
    done = stages.run("validate", project).must()
    assert "300 words hold addresses of functions or tables: they were compared by symbol" in done.err
    assert "Result: PASS  (byte-exact, 1 of 1 regions identical)" in done.err
    # The table of another class is another one.
    edited = project / "kernel_variant.cpp"
    edited.write_text(edited.read_text().replace("if (i % 3 == 0)", "if (i % 3 != 0)"))
    subprocess.run(["make", "-C", project, "recompile"], check=True, capture_output=True)
    stages.run("validate", project).must(1)


@pytest.mark.slow
def test_stored_addresses_of_the_devices_heap_are_named(stages: Stages, tmp_path: Path):
    project = rebuilt(stages, tmp_path, "grid_sync", "gfx90a", "use_heap")
    done = stages.run("validate", project).must(1)
    told = r"(all|\d+ of) \d+ words that differ hold addresses on the device.s heap: each run"
    assert re.search(told + " gets other memory", done.err), done.err
