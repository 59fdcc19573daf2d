"""Virtual functions, pointers to functions and to variables: a replay has the module elsewhere."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from nvidia_gpu import architecture
from shared import made_once

PROGRAMS = Path(__file__).parent / "programs"
SOURCE = (PROGRAMS / "functions.cu").read_text()
EDITS = {
    "right": ("side * side * x", "side * (x * side)"),
    "wrong": ("side * side * x", "side * side * x + 1"),
    "one more": (
        "__device__ __noinline__ float increment",
        "__device__ __noinline__ float another(float x) { return x - 1; }\n"
        "__device__ Function before_table[1] = {another};\n"
        "__device__ __noinline__ float increment",
    ),
    # Nobody changed it after it was loaded: the edit counts.
    "edited value": ("value = &values[1]", "value = &values[2]"),
}


@pytest.fixture(params=["functions", "functions_linked"])
def program(request):
    return request.param


@pytest.fixture
def variant(program, of_run):
    """A cubin of the program's kernels with one edit, made in another folder."""

    def build(name):
        def compile_in(folder):
            old, new = EDITS[name]
            assert old in SOURCE
            (folder / "functions.cu").write_text(SOURCE.replace(old, new))
            source = folder / f"{program}.cu"  # the unit's name is in the names of what its namespaces hide
            if program != "functions":
                shutil.copy(PROGRAMS / source.name, source)
            cubin = folder / "variant.cubin"
            words = ["nvcc", f"-arch={architecture()}", "-O2", f"-I{PROGRAMS}", "-cubin"]
            if program == "functions":
                subprocess.run([*words, "-o", cubin, source], check=True, capture_output=True)
            else:
                part = folder / "part.cubin"
                subprocess.run([*words, "-rdc=true", "-o", part, source], check=True, capture_output=True)
                link = ["nvlink", f"-arch={architecture()}", part, "-o", cubin]
                subprocess.run(link, check=True, capture_output=True)
            return str(cubin)

        return Path(made_once(of_run / "variants" / f"{program}-{name}", compile_in))

    return build


@pytest.mark.parametrize("kernel", ["build_scene", "render"])
def test_a_replay_follows_what_captured_memory_points_to(kc, captured, built, program, kernel):
    capture = captured(kernel, built[program])
    for options in ((), ("-n", 5, "--warmup", 1)):
        shown = kc.show(kc.ok("kc-replay", capture, *options).digest)
        assert shown["outcome"] == "completed", shown["explanation"]
        assert shown["matches_golden"] is True


def test_words_that_held_addresses_of_functions_are_told(kc, captured, built, program):
    capture = captured("render", built[program])
    told = "words of memory that held their addresses" in kc.ok("kc-replay", capture).err
    assert told == (program == "functions_linked")  # the others are numbers, the same everywhere


@pytest.mark.parametrize("kernel", ["build_scene", "render"])
@pytest.mark.parametrize("edit", EDITS)
def test_edits_are_judged_by_what_they_compute(kc, captured, built, program, variant, kernel, edit):
    capture = captured(kernel, built[program])
    cubin = variant(edit)
    done = kc.run("kc-validate", capture, "--variant", cubin)
    fails = kernel == "render" and edit in ("wrong", "edited value")
    assert done.code == int(fails), done.out + done.err


@pytest.mark.parametrize("kernel", ["build_scene", "render"])
def test_baseline_and_variant_in_turn(kc, captured, built, program, variant, kernel):
    capture = captured(kernel, built[program])
    shown = kc.show(kc.ok("kc-replay", capture, "--compare", variant("right"), "-n", 4).digest)
    assert shown["outcome"] == "completed"
    assert shown["matches_golden"] is True
    assert len(shown["timing"]["samples_ns"]) == 4
