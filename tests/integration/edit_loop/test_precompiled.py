"""A unit with large headers: the project parses them once, and again as soon as an edit may change them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from typing import TYPE_CHECKING

import pytest
from made_in_projects import build_unit, make

from kerncap_stages.compilers.installed import find_compiler
from kerncap_stages.compilers.kernel_unit import KernelUnit
from kerncap_stages.compilers.precompiled import find_precompiled

if TYPE_CHECKING:
    from pathlib import Path

    from stages import Stages

# The kernel is in a header between others, as in libraries of templates.
LARGE = "".join(
    (
        "#pragma once\n#include <hip/hip_runtime.h>\n",
        "template <class T> __device__ T twice(T x) { return x * TWO; }\n",
        "/*" + "much text\n" * 400_000 + "*/\n",
    )
)
OTHER = """#pragma once
__device__ inline float plus(int n) { return n + 0.5f; }
"""
KERNEL = """#ifndef KERNEL_HPP
#define KERNEL_HPP
#include "large.hpp"
#define STEP 1
#include "other.hpp"
template <int N> __global__ void scale(float* x) {
  x[threadIdx.x] = twice(x[threadIdx.x]) + plus(N) + STEP;
}
#endif
"""
LIBRARY = """#pragma once
#include "kernel.hpp"
#include "after.hpp"
#include "users.hpp"
"""
AFTER = """#pragma once
#include "large.hpp"
__device__ inline float thrice(float x) { return x * 3; }
"""
USERS = """#pragma once
#include "kernel.hpp"
inline void run(float* x) { scale<3><<<1, 64>>>(x); }
"""
UNIT = """#define TWO 2
#include "library.hpp"
int main() {
  float* x;
  if (hipMalloc(&x, 256) || hipMemset(x, 63, 256)) return 2;
  run(x);
  return hipDeviceSynchronize();
}
"""
TREE = {
    "large.hpp": LARGE, "other.hpp": OTHER, "kernel.hpp": KERNEL, "library.hpp": LIBRARY,
    "after.hpp": AFTER, "users.hpp": USERS, "unit.hip": UNIT,
}  # fmt: skip


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A program of one unit, and its compilation database."""
    return build_unit(tmp_path / "tree", TREE)


def judge(stages: Stages, project: Path) -> str:
    told = make(stages, project, "recompile", "validate-variant").stderr
    return "PASS" if "Result: PASS" in told else "FAIL" if "Result: FAIL" in told else told


def test_headers_are_parsed_once_until_an_edit_may_change_them(stages: Stages, app: Path):
    (capture,) = stages.capture("scale", app)
    source = stages.run("locate", capture, "--source-dir", app.parent).must().digests[0]
    precompiled = stages.show(source)["precompiled"]
    # The kernel's header, what includes it, and what comes after it are not among them.
    assert summarize(precompiled["text"]) == ["TWO", "large.hpp", "STEP", "other.hpp"]
    project = stages.folder / "project"
    stages.run("generate", source, "-o", project).must()
    variant, kept = project / "kernel_variant.cpp", project / "precompiled.pch"
    assert judge(stages, project) == "PASS"
    made = kept.stat().st_mtime_ns

    text = variant.read_text()
    for edit, verdict in (("plus(N) + (STEP)", "PASS"), ("plus(N + 1) + STEP", "FAIL")):
        variant.write_text(text.replace("plus(N) + STEP", edit))
        assert judge(stages, project) == verdict
        assert kept.stat().st_mtime_ns == made

    # An error is told as without them.
    variant.write_text(text.replace("plus(N)", "nonsense(N)"))
    failed = make(stages, project, "recompile").stderr
    assert failed.count("use of undeclared identifier 'nonsense'") == 1
    assert kept.stat().st_mtime_ns == made

    # A macro that a header may read: all headers are parsed.
    variant.write_text(text.replace("#define STEP 1", "#define STEP 2"))
    told = make(stages, project, "recompile", "validate-variant").stderr
    assert "kernel_variant.cpp was changed in its first 5 lines, up to its last #include" in told
    assert "Result: FAIL" in told

    # A header that was edited is parsed again.
    variant.write_text(text)
    (header,) = (project / "deps").rglob("other.hpp")
    header.write_text(OTHER.replace("0.5f", "0.25f"))
    assert judge(stages, project) == "FAIL"
    header.write_text(OTHER)
    assert judge(stages, project) == "PASS"

    # Also if it has the size and the time that it had: some tools put them back.
    times = header.stat()
    for text_now, verdict in ((OTHER.replace("0.5f", "0.7f"), "FAIL"), (OTHER, "PASS")):
        header.write_text(text_now)
        os.utime(header, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert judge(stages, project) == verdict

    # Another command is another precompiled header; without one, all headers are parsed.
    make(stages, project, "clean", "recompile").check_returncode()
    made = kept.stat().st_mtime_ns
    variant.touch()
    assert "-DTWO=3" in make(stages, project, "recompile", "HIPCC=hipcc -DTWO=3").stderr
    assert kept.stat().st_mtime_ns > made
    make(stages, project, "clean").check_returncode()
    assert not kept.exists()
    make(stages, project, "recompile", "PRECOMPILED=no").check_returncode()
    assert not kept.exists()

    # One that was damaged is made again, once.
    variant.touch()
    assert judge(stages, project) == "PASS"
    for damaged in (b"not from clang", b""):
        kept.write_bytes(damaged)
        for _ in range(2):
            variant.touch()
            assert judge(stages, project) == "PASS"
        assert kept.stat().st_size > 1_000_000
        variant.touch()
        told = make(stages, project, "recompile").stderr
        assert "-emit-pch" not in told
        assert "-include-pch" in told

    # One that clang refuses is not tried again.
    kept.write_bytes(b"does not fit")
    digest = hashlib.sha256(kept.read_bytes()).hexdigest()
    (project / "precompiled.pch.sha256").write_text(f"{digest}  precompiled.pch\n")
    variant.touch()
    assert judge(stages, project) == "PASS"
    assert kept.stat().st_size == 0
    variant.touch()
    assert "precompiled.pch is empty" in make(stages, project, "recompile").stderr


def test_a_project_that_was_copied_or_moved_makes_its_own(stages: Stages, app: Path):
    """clang refuses a precompiled header if the files that it was made from have other paths or times."""
    (capture,) = stages.capture("scale", app)
    stages.run("generate", capture, "--source-dir", app.parent, "-o", "project").must()
    project = stages.folder / "project"
    make(stages, project, "recompile").check_returncode()
    made = (project / "precompiled.pch").read_bytes()
    copied = shutil.copytree(project, stages.folder / "copied")
    for path in (copied / "deps").rglob("*.hpp"):
        os.utime(path, (1_000_000_000, 1_000_000_000))  # older than the precompiled header
    moved = project.rename(stages.folder / "moved")
    for folder in (copied, moved):
        (folder / "kernel_variant.cpp").touch()
        told = make(stages, folder, "recompile").stderr
        kept = folder / "precompiled.pch"
        assert "-emit-pch" in told
        assert "error:" not in told
        assert kept.stat().st_size > 1_000_000
        assert kept.read_bytes() != made
        (folder / "kernel_variant.cpp").touch()
        assert "-emit-pch" not in make(stages, folder, "recompile").stderr


def test_headers_behind_a_link_count_also_with_the_size_and_time_that_they_had(stages: Stages, app: Path):
    (capture,) = stages.capture("scale", app)
    stages.run("generate", capture, "--source-dir", app.parent, "-o", "project").must()
    project = stages.folder / "project"
    (project / "deps").rename(stages.folder / "elsewhere")
    (project / "deps").symlink_to(stages.folder / "elsewhere")
    header = project / "deps/other.hpp"
    times = header.stat()
    for text, verdict in ((OTHER, "PASS"), (OTHER.replace("0.5f", "0.7f"), "FAIL")):
        header.write_text(text)
        os.utime(header, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert judge(stages, project) == verdict
    header.write_text(OTHER)

    # While a file is edited, its first lines count.
    unit = project / "deps/unit.hip"
    for text, verdict in (("// edited\n", "PASS"), ("// again\n", "PASS"), ("#define TWO 3\n", "FAIL")):
        unit.write_text(UNIT.replace("#define TWO 2\n", text) if "TWO" in text else UNIT + text)
        assert judge(stages, project) == verdict


def summarize(text: str) -> list[str]:
    """Return the names of macros and headers of a header."""
    return [re.split(r'[/"<>]', line.split()[1].rstrip('">'))[-1] for line in text.splitlines()]


LARGE_HPP = """#pragma once
#ifndef UNROLL
#define UNROLL 4
#endif
struct record { char c; int i; };
inline int read_unroll() { return UNROLL; }
"""


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("", ["large.hpp"]),
        # Macros decide what a header means, whoever defines them.
        ("#ifndef UNROLL\n#define UNROLL 8\n#endif\n", ["UNROLL", "large.hpp"]),
        ('#include "config.h"\n', ["UNROLL", "large.hpp"]),
        ("#define UNROLL 8\n#undef UNROLL\n", ["UNROLL", "UNROLL", "large.hpp"]),
        # What cannot be repeated before the unit.
        ('#pragma push_macro("UNROLL")\n#define UNROLL 2\n#pragma pop_macro("UNROLL")\n', None),
        ("#pragma pack(push, 1)\n", None),
        ("namespace inner {\n", None),
        ('extern "C" {\n', None),
        ("inline void loop() {\n#pragma unroll\nfor (int i = 0; i < 4; ++i) {}\n}\n", ["large.hpp"]),
        ('#include "list.inc"\n', ["AGAIN", "UNROLL", "AGAIN", "large.hpp"]),
    ],
)
def test_what_can_be_precompiled_before_a_kernel(tmp_path: Path, before: str, expected: list[str] | None):
    (tmp_path / "large.hpp").write_text(LARGE_HPP)
    (tmp_path / "config.h").write_text("#define UNROLL 7\n")
    (tmp_path / "list.inc").write_text("#ifdef AGAIN\n#define UNROLL 9\n#endif\n#define AGAIN\n")
    unit = tmp_path / "käse.hip"
    unit.write_text(before + '#include "large.hpp"\n__global__ void kernel() {}\n')
    if "list.inc" in before:  # a file that is read twice, with other macros
        unit.write_text(before + before + '#include "large.hpp"\n__global__ void kernel() {}\n')
    wanted = KernelUnit(unit, ("-O3",), tmp_path, "gfx90a", "_Z6kernelv")
    found = find_precompiled(find_compiler("hipcc"), wanted, unit, tmp_path)
    assert (None if found is None else summarize(found.text)) == expected


def test_headers_beside_a_kernel_that_is_included_from_another_folder(tmp_path: Path):
    """As llama.cpp's units of one instantiation each. __FILE__ is the path by which a header was included."""
    (tmp_path / "large.hpp").write_text(LARGE_HPP + "inline const char* read_file() { return __FILE__; }\n")
    kernel = tmp_path / "kernel.hpp"
    kernel.write_text('#pragma once\n#include "large.hpp"\ntemplate <int N> __global__ void kernel() {}\n')
    unit = tmp_path / "instances/unit.hip"
    unit.parent.mkdir()
    unit.write_text('#include "../kernel.hpp"\ntemplate __global__ void kernel<1>();\n')
    wanted = KernelUnit(unit, ("-O3",), tmp_path, "gfx90a", "_Z6kernelILi1EEvv")
    found = find_precompiled(find_compiler("hipcc"), wanted, kernel, tmp_path)
    assert found is not None
    assert summarize(found.text) == ["large.hpp"]
