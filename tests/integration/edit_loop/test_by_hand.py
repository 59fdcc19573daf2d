"""Kernels that were written as assembly, as Tensile's are: edits of their instructions are judged."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from made_up import make

from kerncap_stages.compilers.installed import find_compiler

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stages import Stages

# Labels are symbols, the kernel has no size, and a jump takes its distance from a literal.
FIVE_TIMES = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"
.text
.globl five_times
.p2align 8
.type five_times,@function
five_times:
  s_load_dwordx2 s[2:3], s[0:1], 0x0
  v_lshlrev_b32 v1, 2, v0
  v_mov_b32 v2, 0
  s_mov_b32 s8, 5
  s_getpc_b64 s[4:5]
  s_add_i32 s6, label_far, 4
  s_add_u32 s4, s4, s6
  s_addc_u32 s5, s5, 0
  s_setpc_b64 s[4:5]
label_loop:
  v_add_u32 v2, v2, v0
  s_sub_u32 s8, s8, 1
  s_cmp_eq_u32 s8, 0
  s_cbranch_scc0 label_loop
  s_branch label_store
label_far:
  s_branch label_loop
label_store:
  s_waitcnt lgkmcnt(0)
  global_store_dword v1, v2, s[2:3]
  s_endpgm
.rodata
.p2align 6
.amdhsa_kernel five_times
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 4
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 4
.end_amdhsa_kernel
.amdgpu_metadata
amdhsa.version: [1, 1]
amdhsa.target: amdgcn-amd-amdhsa--gfx90a
amdhsa.kernels:
  - .name: five_times
    .symbol: five_times.kd
    .args:
      - .name: out
        .address_space: global
        .offset: 0
        .size: 8
        .value_kind: global_buffer
    .kernarg_segment_size: 8
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 4
    .max_flat_workgroup_size: 64
.end_amdgpu_metadata
"""


@pytest.fixture
def project(stages: Stages, program: Callable[..., Path]) -> Path:
    """A project of the kernel's instructions."""
    source, made = stages.folder / "five_times.s", stages.folder / "five_times.co"
    source.write_text(FIVE_TIMES)
    clang = [find_compiler("hipcc").path, "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx90a"]
    subprocess.run([*clang, "-o", made, source], check=True, capture_output=True)
    (capture,) = stages.capture("five_times", program("written_by_hand"), made)
    stages.run("generate", capture, "--assembly", "--output", "project").must()
    return stages.folder / "project"


def assemble(project: Path, text: str, old: str, new: str) -> None:
    """The kernel with one edit."""
    assert old in text
    (project / "kernel_variant.s").write_text(text.replace(old, new))
    done = make(project, "assemble")
    assert done.returncode == 0, done.stderr


def test_right_edits_pass_and_wrong_ones_fail(stages: Stages, project: Path):
    text = (project / "kernel_variant.s").read_text()
    assert make(project, "assemble").returncode == 0
    assert (project / "optimized.hsaco").read_bytes() == (stages.folder / "five_times.co").read_bytes()
    assert "Result: PASS" in stages.run("validate", "project").must().err
    # Right: what lies between the far jump and its target grows; the same sum in another order.
    assemble(project, text, "\ts_sub_u32 s8, s8, 1", "\ts_nop 0\n\ts_nop 0\n\ts_sub_u32 s8, s8, 1")
    assert "Result: PASS" in stages.run("validate", "project").must().err
    assemble(project, text, "v2, v2, v0", "v2, v0, v2")
    assert "Result: PASS" in stages.run("validate", "project").must().err
    # Wrong: four times, and the neighbour's place.
    assemble(project, text, "s_mov_b32 s8, 5", "s_mov_b32 s8, 4")
    assert "Result: FAIL" in stages.run("validate", "project").must(1).err
    assemble(project, text, "global_store_dword v1, v2, s[2:3]", "global_store_dword v1, v2, s[2:3] offset:4")
    assert "Result: FAIL" in stages.run("validate", "project").must(1).err


def test_what_was_not_built_is_told_beside_verdicts_and_times(stages: Stages, project: Path):
    built, other = project / "optimized.hsaco", stages.folder / "other.hsaco"
    text = (project / "kernel_variant.s").read_text()
    assemble(project, text, "s_mov_b32 s8, 5", "s_nop 0\n\ts_mov_b32 s8, 5")
    shutil.copy(built, other)
    assemble(project, text, "s_mov_b32 s8, 5", "s_mov_b32 s8, 5")
    both = (("validate", "project"), ("replay", "project", "--compare", built))
    for words in both:
        assert "was not built by make" not in stages.run(*words).must().err
    shutil.copy(other, built)
    for words in both:
        assert "optimized.hsaco was not built by make in this folder" in stages.run(*words).must().err
