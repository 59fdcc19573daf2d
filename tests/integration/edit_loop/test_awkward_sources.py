"""Sources and builds as they are found: other encodings, kernels made by macros, flags of every kind."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from made_up import device_code, make, publish, text_section, write_database

from kerncap_stages.compilers.hip import HipTool
from kerncap_stages.compilers.installed import find_compiler
from kerncap_stages.generate.engine import run_generate
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options
from kerncap_stages.manifests.source import Outcome
from kerncap_stages.project.checkout import check_out

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.store import Store

pytestmark = pytest.mark.skipif(shutil.which("hipcc") is None, reason="needs hipcc: run it in the ROCm root")

SCALE = "_Z5scalePfi"
KERNEL = b"""#include <hip/hip_runtime.h>
__global__ void scale(float* x, int n) {
  if (static_cast<int>(threadIdx.x) < n) x[threadIdx.x] *= 2;
}
"""


def project_of(store: Store, tree: Path, code: bytes, symbol: str):
    """The source that is found for a kernel, and its project."""
    digest, source = run_locate(store, publish(store, code, symbol), Options((tree,)))
    assert source.outcome is Outcome.FOUND, source.explanation
    made, reproducer = run_generate(store, digest)
    check_out(store, made, reproducer, tree.with_name("project"), force=False)
    return source, tree.with_name("project")


def test_a_latin_1_file_is_rebuilt_to_the_same_instructions(store, tree):
    (tree / "k.hip").write_bytes(b"// \xe9crit \xe0 la main\n" + KERNEL + b"// fin\xa0\n")
    write_database(tree, "hipcc", "-O3")
    code = device_code(tree / "k.hip", tree / "k.hsaco")
    source, project = project_of(store, tree, code, SCALE)
    assert source.definition.line == 3
    assert (project / "kernel_variant.cpp").read_bytes() == (tree / "k.hip").read_bytes()
    assert make(project, "recompile").returncode == 0
    assert text_section((project / "optimized.hsaco").read_bytes()) == text_section(code)


@pytest.mark.parametrize("name", ["back\\slash", "line\nbreak"])
def test_a_folder_of_any_name_is_searched(store, tmp_path, name):
    (tmp_path / "k.hip").write_bytes(KERNEL)
    code = device_code(tmp_path / "k.hip", tmp_path / "k.hsaco")  # hipcc itself takes no line break
    tree = tmp_path / name
    tree.mkdir()
    (tree / "own.hpp").write_text("#define OWN 1\n")
    (tree / "k.hip").write_bytes(b'#include "own.hpp"\n' + KERNEL)
    write_database(tree, "hipcc", "-O3")
    _, source = run_locate(store, publish(store, code, SCALE), Options((tree,)))
    assert source.outcome is Outcome.FOUND, source.explanation
    assert [file.path for file in source.files] == [f"{tree}/k.hip", f"{tree}/own.hpp"]


def test_a_kernel_that_a_macro_of_a_header_makes_is_found_at_its_use(store, tree):
    (tree / "make.hpp").write_text(
        "#include <hip/hip_runtime.h>\n"
        "#define MAKE(type, name) \\\n"
        "  __global__ void name##_##type(type* x) { x[threadIdx.x] *= 2; }\n"
    )
    (tree / "k.hip").write_text(
        '#include "make.hpp"\nMAKE(float, scale)\nMAKE(int, scale)\nMAKE(float, rescale)\n'
    )
    write_database(tree, "hipcc", "-O3")
    code = device_code(tree / "k.hip", tree / "k.hsaco")
    source, project = project_of(store, tree, code, "_Z9scale_intPi")
    assert (source.definition.path, source.definition.line) == (str(tree / "k.hip"), 3)
    assert make(project, "recompile").returncode == 0
    assert text_section((project / "optimized.hsaco").read_bytes()) == text_section(code)


@pytest.mark.parametrize("edited", [False, True])
def test_of_copies_of_one_text_that_of_the_first_compile_command_is_taken(store, tree, edited):
    entries = []
    for folder in ("new", "old"):
        (tree / folder).mkdir()
        (tree / folder / "k.hpp").write_bytes(KERNEL)
        (tree / f"{folder}.hip").write_text(f'#include "{folder}/k.hpp"\nauto* used = scale;\n')
        words = ["hipcc", "-O3", "-c", f"{folder}.hip"]
        entries.append({"directory": str(tree), "file": f"{folder}.hip", "arguments": words})
    if edited:  # without another instruction
        (tree / "old/k.hpp").write_bytes(KERNEL + b"// the old one\n")
    (tree / "compile_commands.json").write_text(json.dumps(entries))
    code = device_code(tree / "new.hip", tree / "k.hsaco")
    _, source = run_locate(store, publish(store, code, SCALE), Options((tree,)))
    if edited:
        assert source.outcome is Outcome.AMBIGUOUS
        return
    assert source.outcome is Outcome.FOUND, source.explanation
    assert source.definition.path == str(tree / "new/k.hpp")
    assert source.compile_command.translation_unit == str(tree / "new.hip")
    assert f"same text: {tree}/old/k.hpp" in source.explanation


def test_of_copies_of_a_unit_the_one_with_a_compile_command_is_taken(store, tree):
    (tree / "backup").mkdir()
    for name in ("k.hip", "backup/k.hip"):
        (tree / name).write_bytes(KERNEL)
    write_database(tree, "hipcc", "-O3")
    code = device_code(tree / "k.hip", tree / "k.hsaco")
    _, source = run_locate(store, publish(store, code, SCALE), Options((tree,)))
    assert source.outcome is Outcome.FOUND, source.explanation
    assert source.definition.path == str(tree / "k.hip")


@pytest.mark.parametrize("arch", ["gfx942,gfx90a,gfx1100", "native", "gfx90a:xnack-", "gfx942,gfx1201"])
def test_lists_of_targets_a_response_file_and_a_launcher_give_one_command(store, tree, arch):
    (tree / "build").mkdir()
    (tree / "k.hip").write_bytes(b"#ifndef FACTOR\n#error FACTOR\n#endif\n" + KERNEL)
    (tree / "build/flags.rsp").write_text('-O3 "-DFACTOR=2" -DTEXT="a\\ b"\n')
    words = ["ccache", "hipcc", "@flags.rsp", f"--offload-arch={arch}", "-MD", "-MF", "k.d", "-o", "k.o"]
    write_database(tree, *words, file="../k.hip", directory="build")
    code = device_code(tree / "k.hip", tree / "k.hsaco", "-DFACTOR=2")
    source, project = project_of(store, tree, code, SCALE)
    assert list(source.compile_command.arguments) == ["hipcc", "-O3", "-DFACTOR=2", "-DTEXT=a b"]
    assert source.headers_by_compiler
    assert make(project, "recompile").returncode == 0
    assert text_section((project / "optimized.hsaco").read_bytes()) == text_section(code)


def test_device_code_of_other_units_is_told_before_and_named_by_the_linker(store, tree):
    (tree / "k.hip").write_bytes(
        b"__attribute__((device)) float twice(float);\n" + KERNEL.replace(b"*= 2", b"= twice(2)")
    )
    write_database(tree, "hipcc", "-O3", "-fgpu-rdc")
    alone = tree / "alone.hip"
    alone.write_bytes(b"#define twice(x) x\n" + KERNEL)
    source, project = project_of(store, tree, device_code(alone, tree / "k.hsaco"), SCALE)
    assert "-fgpu-rdc" in source.explanation
    failed = make(project, "recompile")
    assert failed.returncode != 0
    assert "undefined" in failed.stderr
    assert "twice" in failed.stderr
    assert not (project / "optimized.hsaco").exists()


@pytest.mark.parametrize("name", ["no UTF-8 \udcff", "line\nbreak"])
def test_a_tree_of_any_name_is_located_without_a_compile_command(store, tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    for place in (folder, tmp_path):  # hipcc itself takes no line break
        (place / "k.hip").write_bytes(KERNEL)
    code = device_code(tmp_path / "k.hip", tmp_path / "k.hsaco")
    digest, source = run_locate(store, publish(store, code, SCALE), Options((folder,)))
    assert source.outcome is Outcome.FOUND
    assert "is assumed" in source.explanation
    _, reproducer = run_generate(store, digest)
    assert reproducer.can_recompile


def test_a_unit_that_needs_optimisation_to_be_assembled_has_its_kernel(tmp_path: Path):
    """As Composable Kernel's attention: an operand of inline assembly is a constant once it is inlined."""
    unit = tmp_path / "unit.hip"
    unit.write_bytes(
        b'__device__ void wait(int n) { asm volatile("s_nop %0" ::"n"(n)); }\n'
        b'extern "C" __attribute__((global)) void kernel() { wait(3); }\n'
    )
    tool = HipTool(find_compiler("hipcc"))
    assert tool.yields(unit, ("-O3",), tmp_path, "gfx90a", "kernel")
    assert not tool.yields(unit, ("-O3",), tmp_path, "gfx90a", "wait")
