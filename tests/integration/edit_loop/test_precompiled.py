"""A unit with large headers: the project parses them once, and again as soon as an edit may change them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
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
    tree = tmp_path / "tree"
    tree.mkdir()
    for name, text in TREE.items():
        (tree / name).write_text(text)
    words = ["hipcc", "--offload-arch=gfx90a"]
    entry = {"directory": str(tree), "file": "unit.hip", "arguments": [*words, "-c", "unit.hip"]}
    (tree / "compile_commands.json").write_text(json.dumps([entry]))
    subprocess.run([*words, "unit.hip", "-o", "app"], cwd=tree, check=True, capture_output=True)
    return tree / "app"


def make(stages: Stages, project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{stages.environment.get('PATH', os.environ['PATH'])}"
    return subprocess.run(
        ["make", "-C", project, *words],
        capture_output=True, text=True, check=False, env={**stages.environment, "PATH": path},
    )  # fmt: skip


def judge(stages: Stages, project: Path) -> str:
    told = make(stages, project, "recompile", "validate-variant").stderr
    return "PASS" if "Result: PASS" in told else "FAIL" if "Result: FAIL" in told else told


def test_headers_are_parsed_once_until_an_edit_may_change_them(stages: Stages, app: Path):
    (capture,) = stages.capture("scale", app)
    source = stages.run("locate", capture, "--source-dir", app.parent).must().digests[0]
    precompiled = stages.show(source)["precompiled"]
    # The kernel's header, and what includes it, are not among them; what comes after them is.
    read = [Path(line.split('"')[1]).name for line in precompiled["text"].splitlines() if "#include" in line]
    assert read == ["large.hpp", "other.hpp", "after.hpp"]
    assert "#define TWO 2" in precompiled["text"]
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
    assert "kernel_variant.cpp was changed in its first 5 lines: all headers are parsed again" in told
    assert "Result: FAIL" in told

    # A header that was edited is parsed again.
    variant.write_text(text)
    (header,) = (project / "deps").rglob("other.hpp")
    header.write_text(OTHER.replace("0.5f", "0.25f"))
    assert judge(stages, project) == "FAIL"
    assert kept.stat().st_mtime_ns > made
    header.write_text(OTHER)
    assert judge(stages, project) == "PASS"

    # A precompiled header that clang refuses is removed.
    kept.write_bytes(b"not from clang")
    variant.touch()
    assert judge(stages, project) == "PASS"
    assert not kept.exists()
