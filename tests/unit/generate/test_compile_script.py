"""The script that compiles a unit: what comes from a source artifact cannot act in it."""

from __future__ import annotations

import pytest

from kerncap_stages.compilers.hip import find_optimisation_flag
from kerncap_stages.compilers.one_kernel import list_kernels
from kerncap_stages.generate.compile_script import make_compile_script


@pytest.mark.parametrize("level", ["-O3;touch${IFS}x", "-O2 -fplugin=x", "$(touch x)", "-O`x`"])
def test_a_level_that_a_shell_would_interpret_makes_no_script(level):
    assert make_compile_script("_Z5scalePf", level, None, {}, {}, "gfx90a") is None
    assert find_optimisation_flag([level]) == ()


@pytest.mark.parametrize("symbol", ["a'b", "a b", "$(x)`", "a\nb", ""])
def test_a_symbol_that_a_shell_would_interpret_makes_no_script(symbol):
    assert make_compile_script(symbol, "-O3", None, {}, {}, "gfx90a") is None


def test_kernels_are_read_from_llvms_assembly():
    listing = """
define protected amdgpu_kernel void @_Z5scalePf(ptr addrspace(1) %x) #0 !dbg !4 {
define internal float @_Z5power(float %x) {
define weak_odr amdgpu_kernel void @"with space"(i32 %n) comdat {
declare amdgpu_kernel void @other()
"""
    assert list_kernels(listing) == ["_Z5scalePf", "with space"]
