"""Names, paths, flags and programs from a build folder that anybody may have filled."""

from __future__ import annotations

import json
import shutil

import pytest
from demo_tree import ADD_ROWS
from made_up import make, publish, text_section

from kerncap_stages.generate.engine import run_generate
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options
from kerncap_stages.project.checkout import check_out

pytestmark = pytest.mark.skipif(shutil.which("hipcc") is None, reason="needs hipcc: run it in the ROCm root")


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
def test_hostile_kernel_names_stay_text(store, demo_tree, tmp_path, name):
    made, reproducer = run_generate(store, publish(store, demo_tree[1], f"k{name}"))
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
def test_hostile_paths_and_flags_never_reach_a_shell(store, demo_tree, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / name
    shutil.copytree(demo_tree[0], folder)
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
    digest, source = run_locate(store, publish(store, demo_tree[1], ADD_ROWS), options)
    assert source.headers_by_compiler, source.explanation
    made, reproducer = run_generate(store, digest)
    check_out(store, made, reproducer, tmp_path / "project", force=False)
    result = make(tmp_path / "project", "recompile")
    assert result.returncode == 0, result.stderr
    assert text_section((tmp_path / "project/optimized.hsaco").read_bytes()) == text_section(demo_tree[1])
    assert list(tmp_path.rglob("pwned")) == []


@pytest.mark.parametrize("compiler", ["./evil.sh", "/bin/sh", "python3", "./clang++; touch pwned"])
def test_a_program_that_is_no_compiler_is_not_run(store, demo_tree, tmp_path, compiler):
    folder = tmp_path / "tree"
    shutil.copytree(demo_tree[0], folder)
    (folder / "src/evil.sh").write_text("#!/bin/sh\ntouch pwned\n")
    (folder / "src/evil.sh").chmod(0o755)
    command = [compiler, "-c", "touch pwned" if compiler == "/bin/sh" else "matvec.hip", "matvec.hip"]
    entry = {"directory": str(folder / "src"), "file": "matvec.hip", "arguments": command}
    (folder / "build/compile_commands.json").write_text(json.dumps([entry]))
    digest, source = run_locate(store, publish(store, demo_tree[1], ADD_ROWS), Options((folder,)))
    assert not source.headers_by_compiler
    assert "does not have the name of a compiler" in source.explanation
    made, reproducer = run_generate(store, digest)
    check_out(store, made, reproducer, tmp_path / "project", force=False)
    assert compiler not in (tmp_path / "project/Makefile").read_text()
    assert list(tmp_path.rglob("pwned")) == []


def test_flags_that_load_code_are_left_out_and_named(store, demo_tree, tmp_path):
    folder = tmp_path / "tree"
    shutil.copytree(demo_tree[0], folder)
    plugin = tmp_path / "plugin.so"
    plugin.write_bytes(b"not a library: loading it would fail")
    command = ["hipcc", "-O3", f"-I{folder}/include", f"-fplugin={plugin}", f"-fpass-plugin={plugin}"]
    command += ["-Xclang", "-load", "-Xclang", str(plugin), "-B", str(tmp_path)]
    command += ["-Xclang=-load", f"-Xclang={plugin}", f"-Wp,-load,{plugin}", "-c", "matvec.hip"]
    entry = {"directory": str(folder / "src"), "file": "matvec.hip", "arguments": command}
    (folder / "build/compile_commands.json").write_text(json.dumps([entry]))
    digest, source = run_locate(store, publish(store, demo_tree[1], ADD_ROWS), Options((folder,)))
    assert source.headers_by_compiler
    assert "could run code or write files" in source.explanation
    made, reproducer = run_generate(store, digest)
    check_out(store, made, reproducer, tmp_path / "project", force=False)
    assert "plugin" not in (tmp_path / "project/compile_flags.rsp").read_text()
