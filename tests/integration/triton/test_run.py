"""`reproducer.py --run`: the edited kernel on the captured memory, on the software GPU without torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from triton_package import PROGRAMS, judge

STRIDED = """
import numpy as np, triton, triton.language as tl
from hip_arrays import Array, View

@triton.jit
def turn(pair, down, right, factor, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    values = tl.load(pair[0] + row * down + column * right) * factor
    tl.store(pair[1] + row * COLUMNS + column, values + tl.program_id(0))

x, out = Array(np.arange(64, dtype=np.float16)), Array(np.zeros((4, 2), np.float16))
turn[(1,)]((View(x, (4, 2), (2, 16), 3), out), 2, 16, 0.5, ROWS=4, COLUMNS=2)
print(out.read())
"""

NAMED = """
from typing import NamedTuple
import numpy as np, triton, triton.language as tl
from hip_arrays import Array

class Pair(NamedTuple):
    source: object
    factor: float

@triton.jit
def scale(pair, nothing, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(out + at, tl.load(pair.source + at) * pair.factor + len(nothing))

x, out = Array(np.arange(64, dtype=np.float32)), Array(np.zeros(64, np.float32))
scale[(1,)](Pair(x, 0.5), (), out, SIZE=64)
print(out.read())
"""


@pytest.fixture
def make_project(with_triton, tmp_path):
    def make(kernel: str, *program: object) -> Path:
        (digest,) = with_triton.capture(kernel, sys.executable, *program)
        source = with_triton.run("locate", digest).must().digests[0]
        with_triton.run("generate", source, "-o", tmp_path / "project").must()
        return tmp_path / "project"

    return make


def run(project: Path, stages) -> dict[str, str]:
    """Return what is printed of each tensor."""
    done = start_reproducer(project, stages, "--run")
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


def start_reproducer(project: Path, stages, *options: str) -> subprocess.CompletedProcess[str]:
    beside = Path(sys.executable).parent
    return subprocess.run(
        [sys.executable, project / "reproducer.py", *options],
        capture_output=True,
        text=True,
        env={**stages.environment, "PATH": f"{beside}:{stages.environment['PATH']}"},
        cwd=project.parent,
        check=False,
    )


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_strided_tensors_of_a_tuple(with_triton, make_project, tmp_path):
    (tmp_path / "strided.py").write_text(STRIDED)
    project = make_project("turn", tmp_path / "strided.py")
    assert run(project, with_triton) == {"pair[0]": "equal", "pair[1]": "equal"}
    # The view begins at 3: its element [3, 1] is 3 + 3 * 2 + 16 = 25.
    edit(project / "kernel_variant.py", "* factor", "* factor * tl.where(row + column == 4, 2.0, 1.0)")
    said = run(project, with_triton)
    assert said["pair[0]"] == "equal"
    assert said["pair[1]"] == "1 of 8 elements differ, largest error 12.5 at [3, 1]: 25.0, captured 12.5"
    assert (project / "candidate.hsaco").exists()


def test_tuples_with_names_and_without_elements(with_triton, make_project, tmp_path):
    (tmp_path / "named.py").write_text(NAMED)
    project = make_project("scale", tmp_path / "named.py")
    assert "namedtuple('Pair', ['source', 'factor'])" in (project / "reproducer.py").read_text()
    assert run(project, with_triton) == {"pair[0]": "equal", "out": "equal"}
    assert "Result: PASS  (byte-exact" in judge(project, with_triton)
    assert f"$(wildcard {sys.executable})" in (project / "Makefile").read_text()
    edit(project / "kernel_variant.py", "* pair.factor", "* 2 * pair.factor")
    assert "largest error" in run(project, with_triton)["out"]


def test_parameters_and_files_that_an_edit_adds(with_triton, make_project):
    project = make_project("add_kernel", PROGRAMS / "kernels.py", "add")
    variant = project / "kernel_variant.py"
    edit(variant, "import triton\n", "import triton\nfrom added import more\n")
    (project / "added.py").write_text(
        "import triton\n\n@triton.jit\ndef more(x, count):\n    return x + count\n"
    )
    edit(variant, "CHANGE: tl.constexpr", "CHANGE: tl.constexpr, COUNT: tl.constexpr = 0")
    edit(variant, "a = tl.load(x + at, mask=mask)", "a = more(tl.load(x + at, mask=mask), COUNT)")
    assert "Result: PASS" in judge(project, with_triton)
    edit(project / "added.py", "x + count", "x + count + 1")
    assert "Result: FAIL" in judge(project, with_triton)
    edit(variant, "COUNT: tl.constexpr = 0", "COUNT")
    done = start_reproducer(project, with_triton)
    assert done.returncode == 1
    assert done.stderr == "the parameter COUNT is new: make it a tl.constexpr that has a default\n"


def test_the_grid_and_the_constants_are_the_captured_ones(with_triton, make_project):
    project = make_project("add_kernel", PROGRAMS / "kernels.py", "add")
    assert run(project, with_triton) == {"x": "equal", "y": "equal", "out": "equal"}
    edit(project / "reproducer.py", "GRID = (4, 1, 1)", "GRID = (3, 1, 1)")
    assert run(project, with_triton)["out"].startswith("232 of 1,000 elements differ")


@pytest.mark.parametrize(("name", "kernel"), [("fp8", "fp8_kernel"), ("host_descriptors", "double_kernel")])
def test_small_floats_and_descriptors(with_triton, make_project, name, kernel):
    with_triton.target = "gfx942"
    project = make_project(kernel, PROGRAMS / "kernels.py", name)
    assert run(project, with_triton) == {"x": "equal", "out": "equal"}
    edit(project / "kernel_variant.py", "* 2)", "* 3)")
    assert "largest error" in run(project, with_triton)["out"]
