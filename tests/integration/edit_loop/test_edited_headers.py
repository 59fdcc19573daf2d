"""Headers in deps/ are edited again and again: the other ones are parsed once."""

from __future__ import annotations

import os
import re
import shutil
from functools import partial
from typing import TYPE_CHECKING

import pytest
from made_in_projects import build_unit, make

from kerncap_stages.compilers.header_text import write_header
from kerncap_stages.compilers.installed import find_compiler
from kerncap_stages.compilers.kernel_unit import KernelUnit
from kerncap_stages.compilers.precompiled import preprocess

if TYPE_CHECKING:
    from pathlib import Path

    from stages import Stages

# `step` is looked for by its argument's namespace, too.
LARGE = "".join(
    (
        "#pragma once\n#include <hip/hip_runtime.h>\n",
        "/*" + "much text\n" * 400_000 + "*/\n",
        """
namespace lib {
struct number { float value; };
template <class T> __device__ T step(T x) { return x; }
template <class T> __device__ T walk(T x) { return step(x); }
}
""",
    )
)
MIDDLE = """#pragma once
#include "large.hpp"
namespace app {
inline __device__ float change(float x) { return lib::walk(lib::number{x}).value + 1; }
}
"""
LATER = """#pragma once
#include "large.hpp"
#ifndef SEVEN
#define SEVEN 7
#endif
namespace app {
inline __device__ float late(float x) { return x + SEVEN; }
}
"""
KERNEL = """#pragma once
#include "middle.hpp"
#include "later.hpp"
namespace app {
template <int N> __global__ void scale(float* x) { x[threadIdx.x] = late(change(x[threadIdx.x])) * N; }
}
"""
UNIT = """#include "kernel.hpp"
int main() {
  float* x;
  if (hipMalloc(&x, 256) || hipMemset(x, 63, 256)) return 2;
  app::scale<3><<<1, 64>>>(x);
  return hipDeviceSynchronize();
}
"""
TREE = {"large.hpp": LARGE, "middle.hpp": MIDDLE, "later.hpp": LATER, "kernel.hpp": KERNEL, "unit.hip": UNIT}
ADDED = "which takes longer once"
INSTANTIATED = "-include-pch -Xclang edited_instantiated.pch"


@pytest.fixture
def project(stages: Stages, tmp_path: Path) -> Path:
    """A project of a kernel, which has not been built."""
    tree = tmp_path / "tree"
    (capture,) = stages.capture("scale", build_unit(tree, TREE))
    stages.run("generate", capture, "--source-dir", tree, "-o", "project").must()
    return stages.folder / "project"


def find(project: Path, name: str) -> Path:
    (found,) = (project / "deps").rglob(name)
    return found


def judge(stages: Stages, project: Path, *words: str) -> tuple[str, str]:
    """Compile and judge; return what was said and the verdict."""
    told = make(stages, project, "recompile", "validate-variant", *words).stderr
    return told, "PASS" if "Result: PASS" in told else "FAIL" if "Result: FAIL" in told else told


def test_the_other_headers_are_parsed_once_while_a_header_is_edited(stages: Stages, project: Path):
    middle = find(project, "middle.hpp")
    # Also if the first build is of an edited header.
    for text, verdict, learns in (
        (MIDDLE.replace("value + 1", "value + 2"), "FAIL", True),
        (MIDDLE.replace("value + 1", "value + (1)"), "PASS", False),
        (MIDDLE.replace("value + 1", "value + 4"), "FAIL", False),
        (MIDDLE, "PASS", False),
    ):
        middle.write_text(text)
        told, found = judge(stages, project)
        assert found == verdict
        assert (ADDED in told) == learns
        assert (INSTANTIATED in told) != learns
        assert "-emit-pch" not in told

    # Also if it has the size and the time that it had: some tools put them back.
    times = middle.stat()
    for text, verdict in ((MIDDLE.replace("value + 1", "value + 3"), "FAIL"), (MIDDLE, "PASS")):
        middle.write_text(text)
        os.utime(middle, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert judge(stages, project)[1] == verdict

    # The kernel's own file is edited meanwhile.
    variant = project / "kernel_variant.cpp"
    variant.write_text(KERNEL.replace("* N", "* (N + 1)"))
    told, found = judge(stages, project)
    assert found == "FAIL"
    assert INSTANTIATED in told
    variant.write_text(KERNEL)

    # An error is told as without it, once.
    middle.write_text(MIDDLE.replace("value + 1", "value + nonsense"))
    failed = make(stages, project, "recompile").stderr
    assert failed.count("use of undeclared identifier 'nonsense'") == 1
    middle.write_text(MIDDLE)
    told, found = judge(stages, project, "-B")
    assert found == "PASS"
    assert INSTANTIATED in told

    # A second header: both are left out.
    find(project, "later.hpp").write_text(LATER.replace("x + SEVEN", "x + 8"))
    told, found = judge(stages, project)
    assert found == "FAIL"
    assert re.search(r"edited headers: deps/\S*later\.hpp, deps/\S*middle\.hpp\. The others", told)
    find(project, "later.hpp").write_text(LATER)
    told, found = judge(stages, project)
    assert found == "PASS"
    assert INSTANTIATED in told

    # A copy makes its own.
    copied = shutil.copytree(project, stages.folder / "copied")
    (copied / "kernel_variant.cpp").touch()
    told, found = judge(stages, copied)
    assert found == "PASS"
    assert "error:" not in told

    make(stages, project, "clean").check_returncode()
    assert not list(project.glob("edited*"))
    assert not list(project.rglob("__pycache__"))
    told, found = judge(stages, project)
    assert found == "PASS"
    assert "-include-pch -Xclang precompiled.pch" in told


def test_what_an_edit_may_find_otherwise_is_compiled_with_all_headers(stages: Stages, project: Path):
    middle = find(project, "middle.hpp")
    for change in ("2", "3"):
        middle.write_text(MIDDLE.replace("value + 1", f"value + {change}"))
        told = make(stages, project, "recompile").stderr
    assert INSTANTIATED in told

    # A function of a header that is read later: the program's own build does not have it there.
    middle.write_text(MIDDLE.replace("value + 1", "value + late(x)"))
    told = make(stages, project, "recompile").stderr
    assert "may use late, which a later header declares: all headers are parsed" in told
    assert "use of undeclared identifier 'late'" in told

    # A function that the templates of headers find. If it is there again, others are precompiled.
    overload = "namespace lib { __device__ inline number step(number x) { return {x.value * 2}; } }\n"
    for more, says, uses in (
        ("+ 1", "declares other functions than before", None),
        ("+ (1)", ADDED, None),
        ("+ 1 * 1", None, "-include-pch -Xclang edited.pch"),  # it must not be instantiated without it
    ):
        text = MIDDLE.replace("namespace app {", f"{overload}namespace app {{").replace("+ 1", more)
        middle.write_text(text)
        told, found = judge(stages, project)
        assert found == "FAIL"
        assert says is None or says in told
        assert uses is None or uses in told

    # A macro that headers behind it may read, and an #include.
    middle.write_text(MIDDLE.replace("namespace app", "#define SEVEN 8\nnamespace app"))
    assert judge(stages, project)[1] == "FAIL"
    middle.write_text(MIDDLE.replace("namespace app", "#include <cmath>\nnamespace app"))
    assert judge(stages, project)[1] == "PASS"


def test_a_header_that_is_edited_while_others_are_precompiled(stages: Stages, project: Path):
    """As by a second editor: what was made of the state in between is not used."""
    middle, large = find(project, "middle.hpp"), find(project, "large.hpp")
    text = LARGE.replace("T step(T x) { return x; }", "T step(T x) { return {x.value + 1}; }")
    wrapper, changed = project.parent / "wrapper", project.parent / "changed"
    wrapper.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *-emit-pch*) [ -f {changed} ] && cp {changed} {large} ;; esac\n'
        'exec hipcc "$@"\n'
    )
    wrapper.chmod(0o755)
    changed.write_text(text)
    middle.write_text(MIDDLE.replace("value + 1", "value + (1)"))
    make(stages, project, "recompile", f"HIPCC={wrapper}")
    assert large.read_text() == text
    changed.unlink()
    for change, verdict in (("1 + 0", "FAIL"), ("1 - 1", "PASS"), ("1 - 0", "FAIL")):
        middle.write_text(MIDDLE.replace("value + 1", f"value + {change}"))
        assert judge(stages, project, f"HIPCC={wrapper}")[1] == verdict
    large.unlink()
    assert "large.hpp is missing" in make(stages, project, "recompile").stderr


def test_a_header_without_which_little_is_left_is_precompiled_with_all(stages: Stages, project: Path):
    large, variant = find(project, "large.hpp"), project / "kernel_variant.cpp"
    text = LARGE + "".join(f"extern int n{number};\n" for number in range(100_000))
    large.write_text(text)
    told, found = judge(stages, project)
    assert found == "PASS"
    assert "That saves too little" in told
    large.write_text(text.replace("return x; }", "return {x.value + 1}; }"))
    told, found = judge(stages, project)
    assert found == "FAIL"
    assert "-emit-pch" in told
    variant.touch()
    told, found = judge(stages, project)
    assert found == "FAIL"
    assert "-emit-pch" not in told
    assert "-include-pch -Xclang precompiled.pch" in told


@pytest.mark.parametrize(
    ("edited", "before", "whole"),
    [
        (["first.hpp"], ["base.hpp"], ["base.hpp", "FIRST", "second.hpp", "last.hpp"]),
        (["second.hpp"], ["base.hpp", "first.hpp"], ["base.hpp", "first.hpp", "SECOND", "last.hpp"]),
        (["second.hpp", "first.hpp"], ["base.hpp"], ["base.hpp", "FIRST", "SECOND", "last.hpp"]),
        # One that includes the other: its own text comes behind.
        (
            ["all.hpp", "second.hpp"],
            ["base.hpp", "first.hpp"],
            ["base.hpp", "first.hpp", "SECOND", "last.hpp"],
        ),
        (["missing.hpp"], None, None),
    ],
)
def test_what_is_precompiled_while_headers_are_edited(
    tmp_path: Path, edited: list[str], before: list[str] | None, whole: list[str] | None
):
    for name in ("base", "first", "second", "last"):
        own = f"#define {name.upper()} 1\ninline int {name}() {{ return 1; }}\n"
        base = "" if name == "base" else '#include "base.hpp"\n'
        (tmp_path / f"{name}.hpp").write_text(f"#pragma once\n{base}{own}")
    includes = "".join(f'#include "{name}.hpp"\n' for name in ("base", "first", "second", "last"))
    (tmp_path / "all.hpp").write_text(f"#pragma once\n{includes}")
    unit = tmp_path / "unit.hip"
    unit.write_text('#include "all.hpp"\n__global__ void kernel() {}\n')
    wanted = KernelUnit(unit, ("-O3",), tmp_path, "gfx90a", "_Z6kernelv")
    read = partial(preprocess, find_compiler("hipcc"), wanted, tmp_path)
    without = read()
    assert without is not None
    for in_order, expected in ((True, before), (False, whole)):
        paths = {tmp_path / name for name in edited}
        found = write_header(without, read, paths, tmp_path, in_order=in_order)
        assert (None if found is None else summarize(found.text)) == expected


def summarize(text: str) -> list[str]:
    """Return the names of macros and headers of a header."""
    return [re.split(r'[/"<>]', line.split()[1].rstrip('">'))[-1] for line in text.splitlines()]
