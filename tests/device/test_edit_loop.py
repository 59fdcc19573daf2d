"""From a program to an edited kernel of it and a verdict: nvcc and PTX, in a project that was moved."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nvidia_gpu import TRITON_SAXPY, architecture

TREE = Path(__file__).parents[1] / "programs/cuda_tree"
KERNELS = {"rows::scale<float>": "scale<float>", "plain": "plain", "anonymous namespace": "hidden"}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A source tree and its program, as a build leaves them."""
    folder = tmp_path_factory.mktemp("tree") / "app"
    shutil.copytree(TREE, folder)
    flags = ["-DWIDTH=4", "-I../include", "-std=c++17", "-O3"]
    target = architecture().removeprefix("sm_")
    build = ["nvcc", *flags, f"-gencode=arch=compute_{target},code=[compute_{target},sm_{target}]"]
    (folder / "build").mkdir()
    subprocess.run(
        [*build, "-o", "app", "../src/main.cu"], cwd=folder / "build", check=True, capture_output=True
    )
    entry = {
        "directory": str(folder / "build"), "file": "../src/main.cu",
        "arguments": [*build, "-x", "cu", "-c", "../src/main.cu", "-o", "main.o"],
    }  # fmt: skip
    (folder / "build/compile_commands.json").write_text(json.dumps([entry]))
    return folder


def generated(kc, source, folder, *options):
    kc.ok("kc-generate", source, "--output", "project", *options)
    folder.parent.mkdir(parents=True, exist_ok=True)
    (kc.folder / "project").rename(folder)
    return folder


def with_each(text, *edits):
    """The edits that apply; each kernel's file has some of the places."""
    for old, new in edits:
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("kernel", KERNELS)
def test_an_edited_kernel_is_rebuilt_and_judged(kc, tree, kernel, tmp_path):
    capture = kc.capture(KERNELS[kernel], tree / "build/app", dispatch=1)
    source = kc.ok("kc-locate", capture, "--source-dir", tree).digest
    assert kc.show(source)["outcome"] == "found"
    project = generated(kc, source, tmp_path / "moved" / "there")
    away = tree.with_name("away")
    tree.rename(away)
    try:
        for target in ("run", "validate", "recompile", "run-variant", "validate-variant", "bench"):
            kc.ok("make", "-C", project, target)
        variant = project / "kernel_variant.cu"
        text = variant.read_text()
        right = with_each(
            text, ("data[i] +=", "data[i] = data[i] +"), ("step(data[i], ", "step(1 * data[i], ")
        )
        nothing = with_each(
            text, ("data[i] +=", "if (i < 0) data[i] +="), ("if (i < shape", "if (i < -shape")
        )
        wrong = with_each(text, ("+= 3", "+= 4"), ("2.0f", "4.0f"), ("SCALE_UNIT /", "SCALE_UNIT * 2 /"))
        assert len({text, right, nothing, wrong}) == 4
        for edit, code in ((right, 0), (nothing, 2), (wrong, 2)):  # make's 2: a command failed
            variant.write_text(edit)
            done = kc.run("make", "-C", project, "validate-variant")
            assert done.code == code, done.out + done.err
            assert ("Result: PASS" if code == 0 else "Result: FAIL") in done.err
    finally:
        away.rename(tree)


def test_one_command_makes_a_project_that_replays(kc, tree):
    words = ("--dispatch", 1, "--source-dir", tree, "--output", "project")
    done = kc.ok("kc-extract", "--kernel", "plain", *words, "--", tree / "build/app")
    assert "Result: PASS" in done.err
    kc.ok("make", "-C", kc.folder / "project", "recompile", "validate-variant")


def test_kerncaps_own_commands_work_on_a_cuda_program(kc, tree):
    app = tree / "build/app"
    profile = json.loads(kc.ok("kerncap", "profile", "--json", "--", app).out)
    assert "scale" in json.dumps(profile)
    words = ("--cmd", app, "--dispatch", 1, "--source-dir", tree, "--output", "project")
    kc.ok("kerncap", "extract", "rows::scale<float>", *words)
    project = kc.folder / "project"
    assert json.loads(kc.ok("kerncap", "replay", project, "--iterations", 5, "--json").out)["timing"]
    variant = project / "kernel_variant.cu"
    kc.ok("make", "-C", project, "recompile")
    kc.ok("kerncap", "validate", project)
    variant.write_text(variant.read_text().replace("SCALE_UNIT /", "SCALE_UNIT * 2 /"))
    kc.ok("make", "-C", project, "recompile")
    assert kc.run("kerncap", "validate", project).code == 1


def test_a_kernel_without_source_is_edited_as_the_ptx_in_its_program(kc, tree, tmp_path):
    app = tmp_path / "bin/app"
    app.parent.mkdir()
    shutil.copy(tree / "build/app", app)
    capture = kc.capture("plain", app, dispatch=1)
    empty = tmp_path / "empty"
    empty.mkdir()
    source = kc.ok("kc-locate", capture, "--source-dir", empty).digest
    found = kc.show(source)
    assert found["language"] == "assembly", found["explanation"]
    assert "bin/app:" in found["definition"]["path"]
    project = generated(kc, source, tmp_path / "project-ptx")
    for target in ("assemble", "validate-variant"):
        kc.ok("make", "-C", project, target)
    variant = project / "kernel_variant.ptx"
    kc.ok("kc-validate", project, "--variant", variant)  # the driver compiles PTX too
    text = variant.read_text()
    at = text.index(".entry _Z5plain")
    wrong = text[:at] + text[at:].replace("0f40000000", "0f40400000", 1)  # 2.0 to 3.0
    assert wrong != text
    variant.write_text(wrong)
    done = kc.run("make", "-C", project, "validate-variant")
    assert done.code == 2
    assert "Result: FAIL" in done.err


def test_a_triton_kernel_is_edited_as_ptx(kc, tmp_path, monkeypatch):
    pytest.importorskip("triton", reason="Triton is not installed")
    monkeypatch.setitem(os.environ, "TRITON_CACHE_DIR", str(tmp_path / "cache"))
    program = tmp_path / "program.py"
    program.write_text(TRITON_SAXPY)
    capture = kc.capture("saxpy", sys.executable, program, dispatch=2)
    source = kc.ok("kc-locate", capture).digest
    assert kc.show(source)["language"] == "triton", kc.show(source)["explanation"]
    project = generated(kc, source, tmp_path / "project-triton", "--assembly")
    kc.ok("make", "-C", project, "validate-variant")
    variant = project / "kernel_variant.ptx"
    text = variant.read_text()
    assert "st.global" in text
    lines = ["// " + line if "st.global" in line else line for line in text.splitlines()]
    variant.write_text("\n".join(lines) + "\n")
    done = kc.run("make", "-C", project, "validate-variant")
    assert done.code == 2, done.out + done.err
    assert "Result: FAIL" in done.err


@pytest.mark.parametrize("kernel", ["compiled", "linked", "of_library"])
def test_a_kernel_that_came_to_the_driver_as_ptx_is_edited_as_that(kc, built, tmp_path, kernel):
    capture = kc.capture(kernel, built["launch_ways"])
    assert len(kc.show(capture)["kernel"]["code_object"]["ptx"]) == 1
    project = project_of_ptx(kc, capture, tmp_path)
    variant = project / "kernel_variant.ptx"
    text = variant.read_text()
    assert f".entry {kernel}(" in text
    variant.write_text(text.replace("add.u32", "sub.u32"))
    done = kc.run("make", "-C", project, "validate-variant")
    assert done.code == 2, done.out + done.err
    assert "Result: FAIL" in done.err


def test_a_kernel_of_a_program_without_machine_code_is_edited_as_its_ptx(kc, tree, tmp_path):
    target = architecture().removeprefix("sm_")
    app = tmp_path / "jit"
    flags = ["-DWIDTH=4", f"-I{tree}/include", "-std=c++17", "-O3"]
    code = f"-gencode=arch=compute_{target},code=compute_{target}"
    subprocess.run(["nvcc", *flags, code, "-o", app, tree / "src/main.cu"], check=True, capture_output=True)
    capture = kc.capture("plain", app, dispatch=1)
    assert len(kc.show(capture)["kernel"]["code_object"]["ptx"]) == 1
    project_of_ptx(kc, capture, tmp_path)


def project_of_ptx(kc, capture, folder):
    """A project of a capture that holds the PTX of its kernel, which passes as it is."""
    empty = folder / "empty"
    empty.mkdir()
    source = kc.ok("kc-locate", capture, "--source-dir", empty).digest
    found = kc.show(source)
    assert found["language"] == "assembly", found["explanation"]
    assert found["definition"]["path"].endswith(":handed-to-the-driver.ptx")
    project = generated(kc, source, folder / "project-of-ptx")
    for target in ("assemble", "validate-variant"):
        kc.ok("make", "-C", project, target)
    return project
