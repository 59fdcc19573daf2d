"""Searching for a kernel's source: the real compiler, a made-up snapshot."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from demo_tree import ADD_ROWS, located
from made_up import device_code, publish

from kerncap_stages.compilers.consulted import is_current
from kerncap_stages.errors import UsageError
from kerncap_stages.generate.engine import run_generate
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options
from kerncap_stages.manifests.kernel import Language
from kerncap_stages.manifests.source import Outcome
from kerncap_stages.project.checkout import check_out

pytestmark = pytest.mark.skipif(shutil.which("hipcc") is None, reason="needs hipcc: run it in the ROCm root")


def test_finds_definition_command_and_exactly_the_local_headers(store, demo_tree):
    _, source = located(store, demo_tree)
    folder, _ = demo_tree
    assert source.outcome is Outcome.FOUND
    assert source.definition.path == str(folder / "src/matvec.hip")
    assert source.definition.line == 8
    assert [(each.name, each.element_type) for each in source.definition.parameters] == [
        ("matrix", "float"),
        ("vector", "float"),
        ("result", "float"),
        ("shape", None),
    ]
    assert [file.path for file in source.files] == [
        str(folder / path) for path in ("src/matvec.hip", "include/matvec.hpp", "include/shape.hpp")
    ]
    assert source.headers_by_compiler
    assert list(source.compile_command.arguments) == ["hipcc", "-O3", f"-I{folder}/include", '-DUNUSED="a b"']


def test_links_and_the_files_of_a_given_database_are_searched(store, demo_tree, tmp_path):
    folder, code = demo_tree
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/code").symlink_to(folder, target_is_directory=True)
    capture = publish(store, code, ADD_ROWS)
    database = folder / "build/compile_commands.json"
    _, source = run_locate(store, capture, Options((tmp_path / "linked",), database))
    assert source.outcome is Outcome.FOUND
    assert [file.path for file in source.files][:2] == [
        str(folder / path) for path in ("src/matvec.hip", "include/matvec.hpp")
    ]
    (tmp_path / "empty").mkdir()
    _, source = run_locate(store, capture, Options((tmp_path / "empty",), database))
    assert (source.outcome, source.definition.path) == (Outcome.FOUND, str(folder / "src/matvec.hip"))


@pytest.mark.parametrize(
    "options", [{"defines": ("",)}, {"defines": ("=1",)}, {"compiler": "/nonexistent/clang++"}]
)
def test_options_that_make_no_sense_are_wrong_usage(store, demo_tree, options):
    with pytest.raises(UsageError):
        located(store, demo_tree, **options)


def test_devices_and_pipes_are_never_read(store, demo_tree, tmp_path):
    os.mkfifo(tmp_path / "pipe.hip")
    (tmp_path / "k.hip").write_text('#include "/dev/zero"\nnamespace demo { void nothing(); }\n')
    _, source = run_locate(store, publish(store, demo_tree[1], ADD_ROWS), Options((tmp_path,)))
    assert source.outcome is Outcome.NOT_FOUND
    assert is_current(source)


def test_a_search_is_repeated_only_when_something_that_it_saw_has_changed(store, demo_tree, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(demo_tree[0], folder)
    database = folder / "build/compile_commands.json"
    database.write_text(database.read_text().replace(str(demo_tree[0]), str(folder)))
    capture = publish(store, demo_tree[1], ADD_ROWS)
    options = Options((folder,))
    first, source = run_locate(store, capture, options)
    assert run_locate(store, capture, options)[0] == first
    assert is_current(source)
    header = folder / "include/shape.hpp"
    header.write_text(header.read_text() + "// changed\n")
    second, source = run_locate(store, capture, options)
    assert second != first
    assert is_current(source)
    (folder / "src/more.hip").touch()
    assert not is_current(source)


def test_defines_reach_the_compiler(store, demo_tree, tmp_path):
    folder = tmp_path / "defines"
    folder.mkdir()
    (folder / "k.hip").write_text(
        "#ifndef NEEDED\n#error define NEEDED\n#endif\n#include <hip/hip_runtime.h>\n"
        "struct Shape { int rows; };\nnamespace demo {\n"
        "__global__ void add_rows(const float* m, const float* v, float* r, Shape s) { *r += NEEDED; }\n}\n"
    )
    digest, source = run_locate(
        store,
        publish(store, demo_tree[1], ADD_ROWS),
        Options((folder,), defines=("NEEDED=1",), compiler="hipcc"),
    )
    assert source.outcome is Outcome.FOUND
    assert "-DNEEDED=1" in source.compile_command.arguments
    made, reproducer = run_generate(store, digest)
    check_out(store, made, reproducer, tmp_path / "project", force=False)
    assert '"-DNEEDED=1"' in (tmp_path / "project/compile_flags.rsp").read_text()


def test_every_failure_is_a_case_with_a_next_step(store, demo_tree, tmp_path):
    folder, code = demo_tree
    empty = tmp_path / "empty"
    empty.mkdir()
    found = run_locate(store, publish(store, code, ADD_ROWS), Options((empty,)))[1]
    assert found.outcome is Outcome.NOT_FOUND
    assert "--source-dir" in found.explanation
    found = run_locate(store, publish(store, code, "Cijk_Ailk_Bljk_SB_MT32"), Options((folder,)))[1]
    assert found.outcome is Outcome.NO_SOURCE_TRAIL
    (empty / "k.py").write_text("import triton\n\n@triton.jit\ndef add_kernel(x, n):\n    pass\n")
    found = run_locate(store, publish(store, code, "add_kernel"), Options((empty,)))[1]
    assert (found.outcome, found.language) == (Outcome.FOUND, Language.TRITON)
    assert "its program recorded nothing" in found.explanation
    with_lines = device_code(
        folder / "src/matvec.hip", tmp_path / "g.hsaco", f"-I{folder}/include", "-gline-tables-only"
    )
    found = run_locate(store, publish(store, with_lines, ADD_ROWS), Options((empty,)))[1]
    # The code object names its files, and they are still there: found, wherever one looks.
    assert (found.outcome, found.definition.path) == (Outcome.FOUND, str(folder / "src/matvec.hip"))
    gone = tmp_path / "gone"
    shutil.copytree(folder, gone)
    with_lines = device_code(
        gone / "src/matvec.hip", tmp_path / "g.hsaco", f"-I{gone}/include", "-gline-tables-only"
    )
    shutil.rmtree(gone)
    found = run_locate(store, publish(store, with_lines, ADD_ROWS), Options((empty,)))[1]
    assert found.outcome is Outcome.WRONG_DIRECTORY
    assert f"{gone}/src/matvec.hip" in found.explanation
    for name in ("one", "two"):
        (empty / f"{name}.hip").write_text(
            "namespace demo { __global__ void add_rows(int a, int b, int c, int d) {} }"
        )
    found = run_locate(store, publish(store, code, ADD_ROWS), Options((empty,)))[1]
    assert found.outcome is Outcome.AMBIGUOUS
    assert "one.hip:1" in found.explanation


def test_a_file_that_is_there_is_no_wrong_directory(store, tmp_path):
    """Its kernel is not recognised, and the compiler does not take it without a flag that nobody told."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "name.inc").write_text("scale\n")
    (tree / "k.hip").write_text(
        "#include <hip/hip_runtime.h>\n#ifndef NEEDED\n#error NEEDED\n#endif\n"
        '__global__ void\n#include "name.inc"\n(float* x) { *x *= 2; }\n'
    )
    code = device_code(tree / "k.hip", tree / "k.hsaco", "-gline-tables-only", "-DNEEDED")
    capture = publish(store, code, "_Z5scalePf")
    for folder in (tree, tmp_path):
        _, source = run_locate(store, capture, Options((folder,)))
        assert source.outcome is Outcome.NOT_FOUND
        assert f"{tree}/k.hip, where no definition of scale is recognised" in source.explanation
        assert "compile_commands.json" in source.explanation


def test_of_two_commands_for_one_file_the_one_that_made_the_code_is_taken(store, demo_tree, tmp_path):
    folder = tmp_path / "tree"
    shutil.copytree(demo_tree[0], folder)
    commands = [
        ["hipcc", opt, *more, f"-I{folder}/include", "-c", "matvec.hip", "-o", f"{opt}.o"]
        for opt, more in (("-O0", ()), ("-O3", ("-ffast-math",)), ("-O3", ()), ("-O3", ()))
    ]
    entries = [
        {"directory": str(folder / "src"), "file": "matvec.hip", "arguments": words} for words in commands
    ]
    (folder / "build/compile_commands.json").write_text(json.dumps(entries))
    _, source = run_locate(store, publish(store, demo_tree[1], ADD_ROWS), Options((folder,)))
    assert "-O3" in source.compile_command.arguments
    assert "-ffast-math" not in source.compile_command.arguments


def test_a_header_that_was_looked_for_and_absent_makes_the_search_run_again(store, demo_tree, tmp_path):
    folder = tmp_path / "tree"
    shutil.copytree(demo_tree[0], folder)
    (folder / "first").mkdir()
    command = ["hipcc", "-O3", f"-I{folder}/first", f"-I{folder}/include", "-c", "matvec.hip"]
    entry = {"directory": str(folder / "src"), "file": "matvec.hip", "arguments": command}
    (folder / "build/compile_commands.json").write_text(json.dumps([entry]))
    capture = publish(store, demo_tree[1], ADD_ROWS)
    # Not below the searched folder, whose list of files would change.
    options = Options((folder / "src",), folder / "build/compile_commands.json")
    first, source = run_locate(store, capture, options)
    assert run_locate(store, capture, options)[0] == first
    (folder / "first/matvec.hpp").write_text('#include "../include/matvec.hpp"\n')
    assert not is_current(source)
    second, source = run_locate(store, capture, options)
    assert second != first
    assert str(folder / "first/matvec.hpp") in [file.path for file in source.files]
