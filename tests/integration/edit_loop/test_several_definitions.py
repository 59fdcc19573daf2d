"""Several definitions fit a kernel, and no compile command is known: each is tried with assumed flags."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from ambiguous_kernels import AMBIGUOUS, SYMBOLS, marked_line
from made_up import device_code, publish

from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options
from kerncap_stages.locate.wanted import Wanted
from kerncap_stages.manifests.source import Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.manifests.source import Source

pytestmark = pytest.mark.skipif(shutil.which("hipcc") is None, reason="needs hipcc: run it in the ROCm root")

SCALE = "_Z5scalePf"
HIP = "#include <hip/hip_runtime.h>\n"


def write_scale(path: Path, value: str, before: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{HIP}{before}__global__ void scale(float* x) {{ x[threadIdx.x] *= {value}; }}\n")
    return path


def locate(store, code: bytes, *places: Path, symbol: str = SCALE, **options) -> Source:
    return run_locate(store, publish(store, code, symbol), Options(places, **options))[1]


def test_the_one_that_gives_the_captured_instructions_is_chosen(store, tree, tmp_path):
    for i in range(1, 8):
        write_scale(tree / f"app{i}/main.hip", f"{i + 1}.5f")
    code = device_code(tree / "app5/main.hip", tmp_path / "code.hsaco")
    source = locate(store, code, tree)
    assert source.outcome is Outcome.FOUND, source.explanation
    assert source.definition.path == f"{tree}/app5/main.hip"
    assert source.definition.parameters
    assert source.unedited.same_instructions
    assert "of 7 definitions, this one gives the captured instructions" in source.explanation
    assert len(source.candidates) == 7


def test_include_folders_are_assumed_for_each(store, tree, tmp_path):
    write_scale(tree / "main.hip", "2.5f")
    needed = tree / "lib/inc/value/value.h"
    needed.parent.mkdir(parents=True)
    needed.write_text("#define VALUE 7.5f\n")
    other = write_scale(tree / "lib/src/main.hip", "VALUE", '#include "value/value.h"\n')
    code = device_code(other, tmp_path / "code.hsaco", f"-I{tree}/lib/inc")
    source = locate(store, code, tree)
    assert (source.outcome, source.definition.path) == (Outcome.FOUND, str(other)), source.explanation
    assert source.unedited.same_instructions
    assert f"-I{tree}/lib/inc" in source.compile_command.arguments


def test_a_build_that_compiles_none_of_them_does_not_hinder(store, tree, tmp_path):
    write_scale(tree / "one/main.hip", "2.5f")
    two = write_scale(tree / "two/main.hip", "3.5f")
    (tree / "other.hip").write_text(HIP)
    (tree / "compile_commands.json").write_text(
        f'[{{"directory": "{tree}", "file": "other.hip", "arguments": ["hipcc", "-c", "other.hip"]}}]'
    )
    source = locate(store, device_code(two, tmp_path / "code.hsaco"), tree)
    assert (source.outcome, source.definition.path) == (Outcome.FOUND, str(two)), source.explanation
    assert source.compile_command.database is None


def test_another_optimisation_level_tells_them_apart_too(store, tree, tmp_path):
    write_scale(tree / "one.hip", "2.5f")
    two = write_scale(tree / "two.hip", "3.5f")
    source = locate(store, device_code(two, tmp_path / "code.hsaco", "-O0"), tree)
    assert (source.outcome, source.definition.path) == (Outcome.FOUND, str(two)), source.explanation
    assert "the program was built with -O0" in source.unedited.why


def test_the_only_one_that_makes_the_kernel_is_chosen_whatever_its_flags(store, tree, tmp_path):
    text = "__global__ void scale({0}* x) {{ x[threadIdx.x] = x[threadIdx.x] * {1} + 1; }}\n"
    (tree / "doubles.hip").write_text(HIP + text.format("double", "3.0"))
    floats = tree / "floats.hip"
    floats.write_text(HIP + text.format("float", "3.0f"))
    source = locate(store, device_code(floats, tmp_path / "code.hsaco", "-ffp-contract=off"), tree)
    assert (source.outcome, source.definition.path) == (Outcome.FOUND, str(floats)), source.explanation
    assert "of 2 definitions, only this one makes the captured kernel" in source.explanation
    assert source.unedited.same_instructions is False


@pytest.fixture
def seven(tree: Path) -> Path:
    """Seven files with the kernel, which differ."""
    for i in range(1, 8):
        write_scale(tree / f"app{i}.hip", f"{i + 1}.5f")
    return tree


def test_where_none_fits_five_are_listed_with_the_next_step(store, seven, tmp_path):
    other = write_scale(tmp_path / "other/main.hip", "99.5f")
    source = locate(store, device_code(other, tmp_path / "code.hsaco"), seven)
    assert source.outcome is Outcome.AMBIGUOUS
    listed = ", ".join(f"{seven}/app{i}.hip:2" for i in range(1, 6))
    assert f"7 definitions fit scale: {listed} and 2 more; none gives" in source.explanation
    assert "app6" not in source.explanation
    assert "--source-dir FILE" in source.explanation


def test_where_several_fit_those_are_listed(store, seven, tmp_path):
    (seven / "app2.hip").write_text(f"// the same code\n{(seven / 'app5.hip').read_text()}")
    source = locate(store, device_code(seven / "app5.hip", tmp_path / "code.hsaco"), seven)
    assert source.outcome is Outcome.AMBIGUOUS
    assert "2 of them give the captured instructions" in source.explanation
    assert f": {seven}/app2.hip:3, {seven}/app5.hip:2; name" in source.explanation


def test_the_other_kernels_of_the_code_object_tell_equal_ones_apart(store, seven, tmp_path):
    text = "__global__ void same(float* x) { x[threadIdx.x] += 2; }\n"
    for path in seven.iterdir():
        path.write_text(path.read_text() + text)
    code = device_code(seven / "app5.hip", tmp_path / "code.hsaco")
    source = locate(store, code, seven, symbol="_Z4samePf")
    assert (source.outcome, source.definition.path) == (Outcome.FOUND, f"{seven}/app5.hip")
    one = tmp_path / "one.hip"
    one.write_text(f"{HIP}{text}")
    source = locate(store, device_code(one, tmp_path / "one.hsaco"), seven, symbol="_Z4samePf")
    assert source.outcome is Outcome.AMBIGUOUS
    assert "; all of them give the captured instructions" in source.explanation
    assert source.explanation.count("app1.hip") == 1


def test_of_copies_the_first_is_taken(store, seven, tmp_path):
    shutil.copy(seven / "app5.hip", seven / "app7.hip")
    source = locate(store, device_code(seven / "app5.hip", tmp_path / "code.hsaco"), seven)
    assert (source.outcome, source.definition.path) == (Outcome.FOUND, f"{seven}/app5.hip")
    assert f"same text: {seven}/app7.hip" in source.explanation


def test_without_a_compiler_it_says_why_none_was_tried(store, seven, tmp_path, monkeypatch):
    code = device_code(seven / "app5.hip", tmp_path / "code.hsaco")
    monkeypatch.setattr(Wanted, "explain_no_compiler", lambda _wanted: "there is no hipcc: install it")
    source = locate(store, code, seven)
    assert source.outcome is Outcome.AMBIGUOUS
    assert "none could be compiled: there is no hipcc: install it" in source.explanation


def test_a_file_that_is_named_counts_alone(store, seven, tmp_path):
    """Also where its instructions are others: the user said which it is."""
    (seven / "marks.h").write_text("#define KERNEL __global__\n")
    (seven / "app3.hip").write_text(
        f'{HIP}#include "marks.h"\nKERNEL void scale(float* x) {{ x[threadIdx.x] *= 4.5f; }}\n'
    )
    code = device_code(seven / "app3.hip", tmp_path / "code.hsaco")
    source = locate(store, code, seven / "app3.hip")
    assert (source.outcome, source.definition.path) == (Outcome.FOUND, f"{seven}/app3.hip")
    assert source.unedited.same_instructions
    source = locate(store, code, seven / "app6.hip")
    assert (source.outcome, source.definition.path) == (Outcome.FOUND, f"{seven}/app6.hip")
    assert source.unedited.same_instructions is False


def test_a_header_that_is_named_is_compiled_by_a_unit_beside_it(store, tree, tmp_path):
    for name in ("one", "two"):
        header = tree / f"{name}/scale.hpp"
        header.parent.mkdir()
        header.write_text(
            "#pragma once\ntemplate <int N> __global__ void scale(float* x) { x[threadIdx.x] *= N; }\n"
        )
        (header.parent / "main.hip").write_text(
            f'{HIP}#include "scale.hpp"\ntemplate __global__ void scale<{len(name)}>(float*);\n'
        )
    code = device_code(tree / "two/main.hip", tmp_path / "code.hsaco")
    source = locate(store, code, tree / "two/scale.hpp", symbol="_Z5scaleILi3EEvPf")
    assert (source.outcome, source.definition.path) == (Outcome.FOUND, f"{tree}/two/scale.hpp")
    assert source.compile_command.translation_unit == f"{tree}/two/main.hip"


@pytest.mark.parametrize("mark", SYMBOLS)
def test_of_several_in_one_file_the_compiler_tells_which(store, tree, tmp_path, mark):
    (tree / "k.hip").write_text(HIP + AMBIGUOUS)
    code = device_code(tree / "k.hip", tmp_path / "code.hsaco")
    source = locate(store, code, tree, symbol=SYMBOLS[mark])
    assert source.outcome is Outcome.FOUND
    assert source.definition.line == marked_line(HIP + AMBIGUOUS, mark)
    assert source.definition.parameters
