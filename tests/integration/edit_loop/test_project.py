"""From a captured kernel to a project that rebuilds it: the real compiler, a made-up snapshot."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from made_up import device_code, make, publish, text_section

from kerncap_stages.errors import UsageError
from kerncap_stages.manifests.source import Outcome
from kerncap_stages.project import checkout
from kerncap_stages.project.checkout import check_out, open_project
from kerncap_stages.project.variants import built_variant
from kerncap_stages.source.consulted import is_current
from kerncap_stages.source.options import Options
from kerncap_stages.stages.generate import run_generate
from kerncap_stages.stages.locate import run_locate
from kerncap_stages.store import Store

DEMO = Path(__file__).parents[2] / "programs/demo"
ADD_ROWS = "_ZN4demo8add_rowsEPKfS1_Pf5Shape"

pytestmark = pytest.mark.skipif(shutil.which("hipcc") is None, reason="needs hipcc: run it in the ROCm root")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A source tree as a build leaves it, and the device code of its kernels."""
    folder = tmp_path_factory.mktemp("tree") / "a b"  # a space in the path
    shutil.copytree(DEMO, folder)
    entry = {
        "directory": str(folder / "build"),
        "file": "../src/matvec.hip",
        "command": "ccache hipcc -O3 -I../include -DUNUSED='\"a b\"' --offload-arch=native -MD -MF x.d "
        "-o matvec.o -c ../src/matvec.hip",
    }
    (folder / "build").mkdir()
    (folder / "build/compile_commands.json").write_text(json.dumps([entry]))
    code = device_code(folder / "src/matvec.hip", folder.parent / "code.hsaco", f"-I{folder}/include")
    return folder, code


@pytest.fixture
def store(tmp_path):
    return Store.open(tmp_path / "store")


def located(store, tree, **options):
    folder, code = tree
    digest = publish(store, code, ADD_ROWS)
    return run_locate(store, digest, Options((folder,), **options))


def test_finds_definition_command_and_exactly_the_local_headers(store, tree):
    _, source = located(store, tree)
    folder, _ = tree
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


def test_the_unchanged_source_rebuilds_to_the_same_instructions(store, tree, tmp_path):
    digest, _ = located(store, tree)
    made, reproducer = run_generate(store, digest)
    project = tmp_path / "project"
    check_out(store, made, reproducer, project, force=False)
    assert make(project, "recompile").returncode == 0
    assert text_section((project / "optimized.hsaco").read_bytes()) == text_section(tree[1])
    again = make(project, "recompile")
    assert "Nothing to be done" in again.stdout


def test_the_project_works_elsewhere_without_the_original_tree(store, tree, tmp_path):
    digest, _ = located(store, tree)
    made, reproducer = run_generate(store, digest)
    project = tmp_path / "project"
    check_out(store, made, reproducer, project, force=False)
    moved = tmp_path / "moved to" / "there"
    moved.parent.mkdir()
    project.rename(moved)
    hidden = tree[0].with_name("hidden")
    tree[0].rename(hidden)
    try:
        result = make(moved, "recompile")
    finally:
        hidden.rename(tree[0])
    assert result.returncode == 0, result.stderr
    assert text_section((moved / "optimized.hsaco").read_bytes()) == text_section(tree[1])
    assert open_project(moved).captures == (reproducer.kernels[0].capture.digest,)
    assert Store.open(moved / "capture/store", create=False).check().ok


def test_an_edit_rebuilds_and_errors_point_at_the_edited_file(store, tree, tmp_path):
    digest, _ = located(store, tree)
    made, reproducer = run_generate(store, digest)
    project = tmp_path / "project"
    check_out(store, made, reproducer, project, force=False)
    assert make(project, "recompile").returncode == 0
    variant = project / "kernel_variant.cpp"
    variant.write_text(variant.read_text().replace("+=", "-="))
    assert make(project, "recompile").returncode == 0
    assert text_section((project / "optimized.hsaco").read_bytes()) != text_section(tree[1])
    header = next(project.glob("deps/**/shape.hpp"))
    header.write_text(header.read_text().replace("int rows", "int rows; int broken ="))
    failed = make(project, "recompile")
    assert failed.returncode != 0
    assert "shape.hpp" in failed.stderr
    assert not (project / "optimized.hsaco").exists()


def test_generating_again_keeps_an_edit_unless_forced(store, tree, tmp_path):
    digest, _ = located(store, tree)
    made, reproducer = run_generate(store, digest)
    project = tmp_path / "project"
    check_out(store, made, reproducer, project, force=False)
    variant = project / "kernel_variant.cpp"
    variant.write_text("// mine\n")
    assert check_out(store, made, reproducer, project, force=False).kept == ("kernel_variant.cpp",)
    assert variant.read_text() == "// mine\n"
    assert check_out(store, made, reproducer, project, force=True).kept == ()
    assert variant.read_bytes() == (tree[0] / "src/matvec.hip").read_bytes()


def test_an_edit_of_another_kernel_is_refused_before_anything_is_written(store, tree, tmp_path):
    made, reproducer = run_generate(store, located(store, tree)[0])
    project = tmp_path / "project"
    check_out(store, made, reproducer, project, force=False)
    (project / "kernel_variant.cpp").write_text("// mine\n")
    for name in ("optimized.hsaco", "candidate.hsaco"):
        (project / name).write_bytes(b"of the first kernel")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/k.hip").write_text("__global__ void other(int* x) { *x = 1; }\n")
    capture = publish(store, tree[1], "_Z5otherPi")
    digest, _ = run_locate(store, capture, Options((tmp_path / "other",), compiler="hipcc"))
    other, another = run_generate(store, digest)
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match=r"holds edits of demo::add_rows.*: kernel_variant\.cpp"):
        check_out(store, other, another, project, force=False)
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before
    done = check_out(store, other, another, project, force=True)
    assert done.kept == ()
    assert "other" in (project / "kernel_variant.cpp").read_text()
    # What was built of the first kernel's sources is no variant of this one.
    assert built_variant(project) is None
    assert sorted(done.set_aside) == ["candidate.hsaco", "optimized.hsaco"]
    assert (project / "optimized.hsaco.old").read_bytes() == b"of the first kernel"


@pytest.mark.parametrize("written", [0, 1, 5])
def test_a_check_out_that_was_killed_is_finished_by_the_next(store, tree, tmp_path, monkeypatch, written):
    made, reproducer = run_generate(store, located(store, tree)[0])
    whole = checkout.check_out(store, made, reproducer, tmp_path / "whole", force=False).folder
    write, left = checkout.write_file, iter(range(written + 1))

    def killed(folder, name, content, **more):
        if next(left, None) is None:
            raise KeyboardInterrupt
        write(folder, name, content, **more)

    monkeypatch.setattr(checkout, "write_file", killed)
    with pytest.raises(KeyboardInterrupt):
        check_out(store, made, reproducer, tmp_path / "project", force=False)
    monkeypatch.undo()
    assert check_out(store, made, reproducer, tmp_path / "project", force=False).kept == ()
    assert files_of(tmp_path / "project") == files_of(whole)


def test_several_at_once_make_one_whole_project(store, tree, tmp_path):
    made, reproducer = run_generate(store, located(store, tree)[0])
    with ThreadPoolExecutor(4) as pool:
        jobs = [
            pool.submit(check_out, store, made, reproducer, tmp_path / "project", force=False)
            for _ in range(4)
        ]
        assert [job.result().kept for job in jobs] == [()] * 4
    check_out(store, made, reproducer, tmp_path / "alone", force=False)
    assert files_of(tmp_path / "project") == files_of(tmp_path / "alone")


def files_of(project: Path) -> dict[str, bytes]:
    found = {path.relative_to(project): path for path in project.rglob("*") if path.is_file()}
    return {str(name): path.read_bytes() for name, path in found.items() if "store" not in name.parts}


def test_links_and_the_files_of_a_given_database_are_searched(store, tree, tmp_path):
    folder, code = tree
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


def test_a_header_that_is_reached_through_a_link_is_edited_where_it_is_read(store, tmp_path):
    real, root = tmp_path / "real", tmp_path / "root"
    real.mkdir()
    root.mkdir()
    (real / "k.hpp").write_text("__global__ void k(int* x) { *x = 1; }\n")
    (root / "parts").symlink_to(real, target_is_directory=True)
    (root / "k.hip").write_text('#include <hip/hip_runtime.h>\n#include "parts/k.hpp"\n')
    entry = {"directory": str(root), "file": "k.hip", "arguments": ["hipcc", "-O3", "-c", "k.hip"]}
    (root / "compile_commands.json").write_text(json.dumps([entry]))
    code = device_code(root / "k.hip", tmp_path / "k.hsaco")
    digest, source = run_locate(store, publish(store, code, "_Z1kPi"), Options((root,)))
    assert source.headers_by_compiler
    made, reproducer = run_generate(store, digest)
    check_out(store, made, reproducer, tmp_path / "project", force=False)
    edited = tmp_path / "project/kernel_variant.cpp"
    edited.write_text("#error edited\n")
    assert "kernel_variant.cpp" in make(tmp_path / "project", "recompile").stderr


@pytest.mark.parametrize(
    "options", [{"defines": ("",)}, {"defines": ("=1",)}, {"compiler": "/nonexistent/clang++"}]
)
def test_options_that_make_no_sense_are_wrong_usage(store, tree, options):
    with pytest.raises(UsageError):
        located(store, tree, **options)


def test_devices_and_pipes_are_never_read(store, tree, tmp_path):
    os.mkfifo(tmp_path / "pipe.hip")
    (tmp_path / "k.hip").write_text('#include "/dev/zero"\nnamespace demo { void nothing(); }\n')
    _, source = run_locate(store, publish(store, tree[1], ADD_ROWS), Options((tmp_path,)))
    assert source.outcome is Outcome.NOT_FOUND
    assert is_current(source)


def test_a_search_is_repeated_only_when_something_that_it_saw_has_changed(store, tree, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(tree[0], folder)
    database = folder / "build/compile_commands.json"
    database.write_text(database.read_text().replace(str(tree[0]), str(folder)))
    capture = publish(store, tree[1], ADD_ROWS)
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


def test_defines_reach_the_compiler(store, tree, tmp_path):
    folder = tmp_path / "defines"
    folder.mkdir()
    (folder / "k.hip").write_text(
        "#ifndef NEEDED\n#error define NEEDED\n#endif\n#include <hip/hip_runtime.h>\n"
        "struct Shape { int rows; };\nnamespace demo {\n"
        "__global__ void add_rows(const float* m, const float* v, float* r, Shape s) { *r += NEEDED; }\n}\n"
    )
    digest, source = run_locate(
        store, publish(store, tree[1], ADD_ROWS), Options((folder,), defines=("NEEDED=1",), compiler="hipcc")
    )
    assert source.outcome is Outcome.FOUND
    assert "-DNEEDED=1" in source.compile_command.arguments
    made, reproducer = run_generate(store, digest)
    check_out(store, made, reproducer, tmp_path / "project", force=False)
    assert '"-DNEEDED=1"' in (tmp_path / "project/compile_flags.rsp").read_text()


def test_every_failure_is_a_case_with_a_next_step(store, tree, tmp_path):
    folder, code = tree
    empty = tmp_path / "empty"
    empty.mkdir()
    found = run_locate(store, publish(store, code, ADD_ROWS), Options((empty,)))[1]
    assert found.outcome is Outcome.NOT_FOUND
    assert "--source-dir" in found.explanation
    found = run_locate(store, publish(store, code, "Cijk_Ailk_Bljk_SB_MT32"), Options((folder,)))[1]
    assert found.outcome is Outcome.NO_SOURCE_TRAIL
    (empty / "k.py").write_text("import triton\n\n@triton.jit\ndef add_kernel(x, n):\n    pass\n")
    found = run_locate(store, publish(store, code, "add_kernel"), Options((empty,)))[1]
    assert found.outcome is Outcome.TRITON_KERNEL
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
        assert f"recognised in {tree}/k.hip" in source.explanation
        assert "compile_commands.json" in source.explanation


def test_a_capture_alone_makes_a_project_that_says_why_it_cannot_be_rebuilt(store, tree, tmp_path):
    made, reproducer = run_generate(store, publish(store, tree[1], ADD_ROWS))
    check_out(store, made, reproducer, tmp_path / "project", force=False)
    assert not reproducer.can_recompile
    failed = make(tmp_path / "project", "recompile")
    assert failed.returncode != 0
    assert "kc-generate without --assembly" in failed.stderr
    assert make(tmp_path / "project", "help").returncode == 0


HOSTILE = [
    "$(touch pwned)",
    "`touch pwned`",
    "a\nall:\n\ttouch pwned",
    "'; touch pwned; '",
    "../../up",
    "%s%n",
    "\x1b[31m",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_kernel_names_stay_text(store, tree, tmp_path, name):
    made, reproducer = run_generate(store, publish(store, tree[1], f"k{name}"))
    project = tmp_path / "project"
    check_out(store, made, reproducer, project, force=False)
    for target in ("help", "recompile", "clean"):
        make(project, target)
    assert list(tmp_path.rglob("pwned")) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["project", "store"]
    assert "\x1b" not in (project / "README.md").read_text() + (project / "Makefile").read_text()


HOSTILE_PATHS = [
    "$(touch pwned) `touch pwned` 'x",
    "a;touch pwned;",
    "%(pwned)s && touch pwned",
    '"q" | touch pwned',
    "line\nbreak: ; touch pwned",
    "no UTF-8 \udcff",
]


@pytest.mark.parametrize("name", HOSTILE_PATHS)
def test_hostile_paths_and_flags_never_reach_a_shell(store, tree, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / name
    shutil.copytree(tree[0], folder)
    command = [
        "hipcc",
        "-O3",
        f"-I{folder}/include",
        "-DKC_X=$(touch pwned)",
        "-DKC_Y='`touch pwned`'",
        '-DKC_Z="; touch pwned; "',
        "-DKC_N=a\ntouch pwned\n",
        "-I../../include; touch pwned",
        "-c",
        "matvec.hip",
    ]
    entry = {"directory": str(folder / "src"), "file": "matvec.hip", "arguments": command}
    (folder / "build/compile_commands.json").write_text(json.dumps([entry]))
    options = Options((folder,), defines=("KC_W='$(touch pwned)'", "KC_V=`touch pwned`"))
    digest, source = run_locate(store, publish(store, tree[1], ADD_ROWS), options)
    assert source.headers_by_compiler, source.explanation
    made, reproducer = run_generate(store, digest)
    check_out(store, made, reproducer, tmp_path / "project", force=False)
    result = make(tmp_path / "project", "recompile")
    assert result.returncode == 0, result.stderr
    assert text_section((tmp_path / "project/optimized.hsaco").read_bytes()) == text_section(tree[1])
    assert list(tmp_path.rglob("pwned")) == []


@pytest.mark.parametrize("compiler", ["./evil.sh", "/bin/sh", "python3", "./clang++; touch pwned"])
def test_a_program_that_is_no_compiler_is_not_run(store, tree, tmp_path, compiler):
    folder = tmp_path / "tree"
    shutil.copytree(tree[0], folder)
    (folder / "src/evil.sh").write_text("#!/bin/sh\ntouch pwned\n")
    (folder / "src/evil.sh").chmod(0o755)
    command = [compiler, "-c", "touch pwned" if compiler == "/bin/sh" else "matvec.hip", "matvec.hip"]
    entry = {"directory": str(folder / "src"), "file": "matvec.hip", "arguments": command}
    (folder / "build/compile_commands.json").write_text(json.dumps([entry]))
    digest, source = run_locate(store, publish(store, tree[1], ADD_ROWS), Options((folder,)))
    assert not source.headers_by_compiler
    assert "not called like a compiler" in source.explanation
    made, reproducer = run_generate(store, digest)
    check_out(store, made, reproducer, tmp_path / "project", force=False)
    assert compiler not in (tmp_path / "project/Makefile").read_text()
    assert list(tmp_path.rglob("pwned")) == []


def test_flags_that_load_code_are_left_out_and_named(store, tree, tmp_path):
    folder = tmp_path / "tree"
    shutil.copytree(tree[0], folder)
    plugin = tmp_path / "plugin.so"
    plugin.write_bytes(b"not a library: loading it would fail")
    command = ["hipcc", "-O3", f"-I{folder}/include", f"-fplugin={plugin}", f"-fpass-plugin={plugin}"]
    command += ["-Xclang", "-load", "-Xclang", str(plugin), "-B", str(tmp_path)]
    command += ["-Xclang=-load", f"-Xclang={plugin}", f"-Wp,-load,{plugin}", "-c", "matvec.hip"]
    entry = {"directory": str(folder / "src"), "file": "matvec.hip", "arguments": command}
    (folder / "build/compile_commands.json").write_text(json.dumps([entry]))
    digest, source = run_locate(store, publish(store, tree[1], ADD_ROWS), Options((folder,)))
    assert source.headers_by_compiler
    assert "could run code or write files" in source.explanation
    made, reproducer = run_generate(store, digest)
    check_out(store, made, reproducer, tmp_path / "project", force=False)
    assert "plugin" not in (tmp_path / "project/compile_flags.rsp").read_text()


def test_of_two_commands_for_one_file_the_one_that_made_the_code_is_taken(store, tree, tmp_path):
    folder = tmp_path / "tree"
    shutil.copytree(tree[0], folder)
    commands = [
        ["hipcc", opt, *more, f"-I{folder}/include", "-c", "matvec.hip", "-o", f"{opt}.o"]
        for opt, more in (("-O0", ()), ("-O3", ("-ffast-math",)), ("-O3", ()), ("-O3", ()))
    ]
    entries = [
        {"directory": str(folder / "src"), "file": "matvec.hip", "arguments": words} for words in commands
    ]
    (folder / "build/compile_commands.json").write_text(json.dumps(entries))
    _, source = run_locate(store, publish(store, tree[1], ADD_ROWS), Options((folder,)))
    assert "-O3" in source.compile_command.arguments
    assert "-ffast-math" not in source.compile_command.arguments


def test_a_header_that_was_looked_for_and_absent_makes_the_search_run_again(store, tree, tmp_path):
    folder = tmp_path / "tree"
    shutil.copytree(tree[0], folder)
    (folder / "first").mkdir()
    command = ["hipcc", "-O3", f"-I{folder}/first", f"-I{folder}/include", "-c", "matvec.hip"]
    entry = {"directory": str(folder / "src"), "file": "matvec.hip", "arguments": command}
    (folder / "build/compile_commands.json").write_text(json.dumps([entry]))
    capture = publish(store, tree[1], ADD_ROWS)
    # Not below the searched folder, whose list of files would change.
    options = Options((folder / "src",), folder / "build/compile_commands.json")
    first, source = run_locate(store, capture, options)
    assert run_locate(store, capture, options)[0] == first
    (folder / "first/matvec.hpp").write_text('#include "../include/matvec.hpp"\n')
    assert not is_current(source)
    second, source = run_locate(store, capture, options)
    assert second != first
    assert str(folder / "first/matvec.hpp") in [file.path for file in source.files]


def test_files_of_something_else_are_never_overwritten(store, tree, tmp_path):
    from kerncap_stages.errors import UsageError

    made, reproducer = run_generate(store, publish(store, tree[1], ADD_ROWS))
    other = tmp_path / "other"
    other.mkdir()
    (other / "Makefile").write_text("mine")
    with pytest.raises(UsageError, match="not a generated project"):
        check_out(store, made, reproducer, other, force=True)
    assert [path.name for path in other.iterdir()] == ["Makefile"]
