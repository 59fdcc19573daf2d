"""Whether an unedited source gives the captured instructions is always asked, and why not is said."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from made_up import device_code, publish, write_database

from kerncap_stages.compilers.amd_code import read_kernel_code
from kerncap_stages.generate.engine import run_generate
from kerncap_stages.locate.locating import run_locate
from kerncap_stages.locate.options import Options
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.reproducer import Reproducer
from kerncap_stages.project.unedited import find_unedited

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.store import Store

pytestmark = pytest.mark.skipif(shutil.which("hipcc") is None, reason="needs hipcc: run it in the ROCm root")

SCALE = "_Z5scalePfi"
KERNEL = """#include <hip/hip_runtime.h>
#ifndef FACTOR
#define FACTOR 2
#endif
__global__ void scale(float* x, int n) {
  for (int i = threadIdx.x; i < n; i += 64) x[i] *= FACTOR;
}
"""


@pytest.fixture
def tree(tree):
    (tree / "k.hip").write_text(KERNEL)
    write_database(tree, "hipcc", "-O3")
    return tree


def located(store: Store, tree: Path, *flags: str):
    """The source of the kernel as a program has it that was built with these flags."""
    code = device_code(tree / "k.hip", tree / "k.hsaco", *flags)
    return run_locate(store, publish(store, code, SCALE), Options((tree,)))


def test_a_command_that_is_not_the_programs_own_is_told(store, tree):
    digest, source = located(store, tree, "-O0")
    assert source.unedited.same_instructions is False
    assert source.unedited.why.startswith("the program was built with -O0")
    assert "bytes of instructions" in source.unedited.why
    assert "build the program with it" in source.explanation
    made, reproducer = run_generate(store, digest)
    assert load_as(store, made, Reproducer) == reproducer
    assert reproducer.kernels[0].unedited == source.unedited
    assert find_unedited(store, source.capture.digest) == source.unedited


def test_the_programs_own_command_gives_the_same(store, tree):
    _, source = located(store, tree)
    assert source.unedited.same_instructions is True
    assert source.explanation is None


def test_other_macros_are_seen_by_the_instructions(store, tree):
    _, source = located(store, tree, "-DFACTOR=3")
    assert source.unedited.same_instructions is False
    assert "of instructions" in source.unedited.why


def test_what_cannot_be_compiled_is_unknown(store, tree):
    code = device_code(tree / "k.hip", tree / "k.hsaco")
    write_database(tree, "hipcc", "-O3", "-DFACTOR=this does not compile")
    _, source = run_locate(store, publish(store, code, SCALE), Options((tree,)))
    assert source.unedited.same_instructions is None
    assert "error" in source.unedited.why


def test_without_a_compiler_it_is_unknown(store, tree, monkeypatch):
    code = device_code(tree / "k.hip", tree / "k.hsaco")
    write_database(tree, str(tree.parent / "gone/bin/clang++"), "-O3")
    monkeypatch.setenv("PATH", os.fspath(tree))
    _, source = run_locate(store, publish(store, code, SCALE), Options((tree,)))
    assert source.unedited.same_instructions is None
    assert "no compiler" in source.unedited.why


def test_instructions_are_edited_as_they_were_captured(store, tree):
    _, source = located(store, tree, "-O0")
    _, reproducer = run_generate(store, source.capture.digest, assembly=True)
    assert reproducer.kernels[0].unedited.same_instructions is True


CALLS = """#include <hip/hip_runtime.h>
%s
__device__ int table[4] = {%s};
__device__ __attribute__((noinline)) int twice(int x) { return x * %d + table[x & 3]; }
__global__ void scale(float* x, int n) { x[threadIdx.x] = twice(n); }
"""


def code_of(tree: Path, before: str, table: str, factor: int) -> bytes:
    (tree / "calls.hip").write_text(CALLS % (before, table, factor))
    return device_code(tree / "calls.hip", tree / "calls.hsaco")


def test_what_a_kernel_calls_counts_and_where_it_lies_does_not(tree):
    code = code_of(tree, "", "1, 2, 3, 4", 2)
    other = "__device__ __attribute__((noinline)) int f(int x) { return x / 7; }\n"
    elsewhere = code_of(tree, other + "__global__ void first(int* x) { *x = f(*x); }", "1, 2, 3, 4", 2)
    assert read_kernel_code(elsewhere, SCALE) == read_kernel_code(code, SCALE) is not None
    assert read_kernel_code(code_of(tree, "", "1, 2, 3, 4", 5), SCALE) != read_kernel_code(code, SCALE)
    assert read_kernel_code(code, "absent") is None
    assert read_kernel_code(b"no ELF", SCALE) is None
