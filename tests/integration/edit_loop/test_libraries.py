"""Kernels of libraries that are installed where the compiler looks without being told."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from made_up import device_code, make, publish, text_section

from kerncap_stages.compilers.installed import find_compiler
from kerncap_stages.generate.engine import run_generate
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options
from kerncap_stages.manifests.source import Outcome
from kerncap_stages.project.checkout import check_out

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("hipcc") is None, reason="needs hipcc: run it in the ROCm root")

FILL = "_ZN3lib4fillIfEEvPT_S1_"
FILES = {
    "lib/config.hpp": "#define LIB_KERNEL __global__\n",
    "lib/kernels.hpp": """#pragma once
#include "config.hpp"
namespace lib {
template <typename T>
LIB_KERNEL __launch_bounds__(64) void fill(T* out, T value) {
  out[threadIdx.x] = value;
}
}
""",
    "other/unused.hpp": "// of another library\n",
    "single.hpp": '#include "other/unused.hpp"\n__global__ void single(float* x) { *x += 1; }\n',
}


@pytest.fixture
def installed(tmp_path) -> Path:
    """A compiler with a folder of libraries among its own include folders; returns that folder."""
    include = tmp_path / "toolchain/include"
    for name, text in FILES.items():
        (include / name).parent.mkdir(parents=True, exist_ok=True)
        (include / name).write_text(text)
    compiler = tmp_path / "toolchain/bin/clang++"
    compiler.parent.mkdir()
    compiler.write_text(f'#!/bin/sh\nexec {find_compiler("hipcc").path} "$@" -idirafter {include}\n')
    compiler.chmod(0o755)
    return include


@pytest.fixture
def tree(tmp_path, installed) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "main.hip").write_text(
        "#include <hip/hip_runtime.h>\n#include <lib/kernels.hpp>\n#include <single.hpp>\n"
        "template __global__ void lib::fill<float>(float*, float);\n"
    )
    words = [str(installed.parent / "bin/clang++"), "-O3", "-c", "main.hip"]
    entry = {"directory": str(folder), "file": "main.hip", "arguments": words}
    (folder / "compile_commands.json").write_text(json.dumps([entry]))
    return folder


def code_of(tree: Path, installed: Path, *flags: str) -> bytes:
    return device_code(tree / "main.hip", tree / "main.hsaco", f"-isystem{installed}", *flags)


@pytest.mark.parametrize("flag", ["-g0", "-gline-tables-only"])
def test_a_librarys_kernel_is_found_and_rebuilt(store, tree, installed, flag):
    code = code_of(tree, installed, flag)
    digest, source = run_locate(store, publish(store, code, FILL), Options((tree,)))
    assert source.outcome is Outcome.FOUND, source.explanation
    assert (source.definition.path, source.definition.line) == (str(installed / "lib/kernels.hpp"), 5)
    assert [file.path for file in source.files] == [
        *(str(path) for path in (installed / "lib/kernels.hpp", tree / "main.hip")),
        str(installed / "lib/config.hpp"),
    ]
    assert source.unedited.same_instructions, source.unedited.why
    made, reproducer = run_generate(store, digest)
    project = tree.with_name("project")
    check_out(store, made, reproducer, project, force=False)
    assert make(project, "recompile").returncode == 0
    assert text_section((project / "optimized.hsaco").read_bytes()) == text_section(code)
    edited = project / "kernel_variant.cpp"
    edited.write_text(edited.read_text().replace("= value", "= value * 3"))
    assert make(project, "recompile").returncode == 0
    assert text_section((project / "optimized.hsaco").read_bytes()) != text_section(code)


def test_of_a_header_that_lies_there_alone_no_other_is_taken(store, tree, installed):
    code = code_of(tree, installed)
    _, source = run_locate(store, publish(store, code, "_Z6singlePf"), Options((tree,)))
    assert [file.path for file in source.files] == [str(installed / "single.hpp"), str(tree / "main.hip")]
    assert source.unedited.same_instructions


def test_without_a_build_units_below_the_folder_are_asked(store, tree, installed):
    code = code_of(tree, installed)
    (tree / "compile_commands.json").unlink()
    options = Options((tree,), compiler=str(installed.parent / "bin/clang++"))
    _, source = run_locate(store, publish(store, code, FILL), options)
    assert source.outcome is Outcome.FOUND, source.explanation
    assert source.definition.path == str(installed / "lib/kernels.hpp")
    assert source.compile_command.translation_unit == str(tree / "main.hip")
    assert source.unedited.same_instructions
    assert "is assumed" in source.explanation
