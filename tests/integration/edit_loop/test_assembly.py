"""The assembly loop: instructions as text, put back into their code object."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from programs import SOURCES

from kerncap_stages.cli.flows.assemble import run_assemble
from kerncap_stages.code.read import read_code_object
from kerncap_stages.code.targets import PROCESSORS
from kerncap_stages.compilers.installed import find_compiler
from kerncap_stages.compilers.llvm_tools import find_llvm_tool
from kerncap_stages.errors import DeviceError, UsageError
from kerncap_stages.generate.assembly import assemble, disassemble
from kerncap_stages.generate.elf_patch import Image

E_FLAGS_AT = 48  # in the ELF header; the processor is its first byte
NAMES = (
    "vector_add",
    "virtual_calls",
    "function_pointers",
    "lds_reduction",
    "device_globals",
    "histogram_int",
)


def device_code(name: str, target: str, folder: Path) -> bytes:
    output = folder / f"{name}.hsaco"
    command = ["hipcc", f"--offload-arch={target}", "--offload-device-only", "--no-gpu-bundle-output", "-O3"]
    command += ["-std=c++20", f"-I{SOURCES}/include", "-o", str(output), str(SOURCES / f"hip/{name}.hip")]
    subprocess.run(command, check=True, capture_output=True)
    return output.read_bytes()


def make(project: Path, target: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["make", "-C", project, target],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_becomes_the_same_bytes_again(tmp_path, name, target):
    code = device_code(name, target, tmp_path)
    facts = read_code_object(code)
    assert facts.kernels
    for symbol in facts.kernels:
        text = disassemble(code, symbol)
        assert assemble(text, code, symbol).code == code
        instructions = [line for line in text.splitlines() if line.startswith("\t") and " " in line]
        assert not any(".long" in line for line in instructions), "some instruction is only data"


@pytest.mark.parametrize("added", [1, 500], ids=["in its place", "outgrown"])
def test_a_longer_kernel_still_reaches_what_it_reached(stages, program, added):
    (capture,) = stages.capture("call", program("function_pointers"))
    stages.run("generate", capture, "--assembly", "--output", "project").must()
    project = stages.folder / "project"
    text = (project / "kernel_variant.s").read_text()
    at = text.index("\n", text.rindex("\t.set kc_target_")) + 1
    (project / "kernel_variant.s").write_text(text[:at] + "\ts_nop 0\n" * added + text[at:])
    done = make(project, "assemble")
    assert done.returncode == 0, done.stdout + done.stderr
    # The kernel calls functions through a table that it finds relative to itself.
    assert (
        stages.replay("project", "--variant", project / "optimized.hsaco").must().manifest["matches_golden"]
    )


def test_a_capture_without_source_gets_the_assembly_loop(stages, program):
    (capture,) = stages.capture("add", program("vector_add"))
    made = stages.run("generate", capture, "--output", "project").must()
    project = stages.folder / "project"
    assert not stages.show(made.digests[0])["can_recompile"]
    assert "make assemble" in (project / "README.md").read_text()
    assert "make assemble" in make(project, "recompile").stderr
    done = make(project, "assemble")
    assert done.returncode == 0, done.stdout + done.stderr
    captured = next(iter(stages.show(capture)["kernel"]["code_object"]["payload"].split(":")[1:]))
    assert (project / "optimized.hsaco").read_bytes() == _object(stages, captured)
    assert "Nothing to be done" in make(project, "assemble").stdout
    stages.run("validate", "project").must()
    edited = project / "kernel_variant.s"
    edited.write_text(edited.read_text().replace("v_add_f32", "v_sub_f32"))
    assert make(project, "assemble").returncode == 0
    assert "all elements of an output are wrong" in stages.run("validate", "project").must(1).err


def _object(stages, digest: str) -> bytes:
    from kerncap_stages.digest import Digest
    from kerncap_stages.store import Store

    return Store.open(stages.store).get(Digest(digest))


def test_the_processor_is_that_of_the_elf_header(tmp_path):
    code = device_code("vector_add", "gfx90a", tmp_path)
    (symbol,) = read_code_object(code).kernels
    spelled = code.replace(b"amdgcn-amd-amdhsa--gfx90a", b"amdgpu9.0a-amd-hsa-gfx90a")
    assert spelled != code
    assert read_code_object(spelled).isa == "amdgcn-amd-amdhsa--gfx90a"
    text = disassemble(spelled, symbol)
    assert "the processor is gfx90a." in text
    assert ".long" not in text
    assert assemble(text, spelled, symbol).code == spelled


# As Tensile writes its kernels: labels are symbols, of the same names in each kernel; kernels have no size.
WRITTEN_BY_HAND = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"
.text
.globl NAME
.p2align 8
.type NAME,@function
NAME:
  s_cmp_eq_u32 s0, 0
  s_cbranch_scc1 label_end
  s_getpc_b64 s[4:5]
  s_add_i32 s6, label_far, 4
  s_add_u32 s4, s4, s6
  s_addc_u32 s5, s5, 0
  s_setpc_b64 s[4:5]
label_loop:
  s_sub_u32 s0, s0, 1
  v_cndmask_b32 v0, v1, v0, vcc
  .long 0
  s_cmp_eq_u32 s0, 0
  s_cbranch_scc0 label_loop
label_far:
  s_nop 1
label_end:
  s_endpgm
.rodata
.p2align 6
.amdhsa_kernel NAME
  .amdhsa_next_free_vgpr 4
  .amdhsa_next_free_sgpr 8
  .amdhsa_accum_offset 4
.end_amdhsa_kernel
.amdgpu_metadata
amdhsa.version: [1, 1]
amdhsa.target: amdgcn-amd-amdhsa--gfx90a
amdhsa.kernels:
  - .name: NAME
    .symbol: NAME.kd
    .kernarg_segment_size: 0
    .kernarg_segment_align: 4
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 8
    .vgpr_count: 4
    .max_flat_workgroup_size: 64
.end_amdgpu_metadata
"""


@pytest.fixture
def by_hand(tmp_path) -> bytes:
    """A code object of two kernels, which were linked."""
    clang = [find_compiler("hipcc").path, "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx90a"]
    for name in ("first", "second"):
        (tmp_path / f"{name}.s").write_text(WRITTEN_BY_HAND.replace("NAME", name))
    made = tmp_path / "by_hand.co"
    sources = [tmp_path / "first.s", tmp_path / "second.s"]
    subprocess.run([*clang, "-o", made, *sources], check=True, capture_output=True)
    return made.read_bytes()


@pytest.mark.parametrize("symbol", ["first", "second"])
def test_labels_that_are_symbols_are_no_ends_of_a_kernel(by_hand, symbol):
    text = disassemble(by_hand, symbol)
    assert "s_endpgm" in text
    assert "label_" not in text
    assert "fixed distance" not in text
    assert assemble(text, by_hand, symbol).code == by_hand


def test_far_labels_are_reached_after_an_edit(by_hand):
    text = disassemble(by_hand, "first")
    before = distances(by_hand)
    edited = assemble(text.replace("\ts_sub_u32", "\ts_nop 0\n\ts_sub_u32"), by_hand, "first").code
    assert [after - old for old, after in zip(before, distances(edited), strict=True)] == [4, 0]


def instructions(code: bytes, symbol: str) -> bytes:
    place = Image(code).find_kernel(symbol)
    return code[place.file_offset : place.file_offset + place.room_bytes]


def distances(code: bytes) -> list[int]:
    """The literals of s_add_i32 s6, LITERAL, 4 of both kernels."""
    return [
        int.from_bytes(function[at + 4 : at + 8], "little")
        for function in (instructions(code, name) for name in ("first", "second"))
        for at in range(0, len(function), 4)
        if function[at : at + 4] == bytes.fromhex("ff840681")
    ]


def test_an_assembler_that_does_not_know_the_processor_is_refused(tmp_path):
    code = device_code("vector_add", "gfx90a", tmp_path)
    (symbol,) = read_code_object(code).kernels
    text = disassemble(code, symbol)
    later = bytearray(code.replace(b"amdgcn-amd-amdhsa--gfx90a", b"amdgcn-amd-amdhsa--gfx9ff"))
    later[E_FLAGS_AT] = 0xFE  # EF_AMDGPU_MACH of no processor
    with pytest.raises(DeviceError, match="'gfx9ff' is not a recognized processor"):
        assemble(text, bytes(later), symbol)


def test_the_table_of_processors_is_llvms(tmp_path):
    (tmp_path / "empty.s").touch()
    for number, processor in PROCESSORS.items():
        made = tmp_path / "empty.o"
        command = [
            find_llvm_tool("llvm-mc"),
            "-triple=amdgcn-amd-amdhsa",
            f"-mcpu={processor}",
            "-filetype=obj",
        ]
        done = subprocess.run(
            [*command, "-o", made, tmp_path / "empty.s"], check=True, capture_output=True, text=True
        )
        assert done.stderr == ""
        assert made.read_bytes()[E_FLAGS_AT] == number, processor


def test_what_the_assembler_warns_of_is_shown(stages, program):
    (capture,) = stages.capture("add", program("vector_add"))
    stages.run("generate", capture, "--assembly", "--output", "project").must()
    edited = stages.folder / "project/kernel_variant.s"
    edited.write_text(edited.read_text().replace("kc_kernel:\n", 'kc_kernel:\n\t.warning "look here"\n'))
    done = stages.run("assemble", "project").must()
    assert "kernel_variant.s:" in done.err
    assert "warning: look here" in done.err


def test_mistakes_are_told_with_their_line(stages, program):
    (capture,) = stages.capture("add", program("vector_add"))
    stages.run("generate", capture, "--assembly", "--output", "project").must()
    edited = stages.folder / "project/kernel_variant.s"
    good = edited.read_text()
    for wrong, told in (
        ("\tno_such_instruction v0\n", "invalid instruction"),
        ("\ts_branch elsewhere\n", "elsewhere"),
    ):
        edited.write_text(good.replace("kc_kernel:\n", "kc_kernel:\n" + wrong))
        done = stages.run("assemble", "project").must(2)
        assert told in done.err


def test_a_code_object_without_the_kernel_is_refused(tmp_path):
    code = device_code("vector_add", "gfx90a", tmp_path)
    with pytest.raises(UsageError, match="no symbol"):
        disassemble(code, "absent")
    with pytest.raises(UsageError, match="not a code object"):
        disassemble(b"not an ELF file", "k")


def test_a_project_without_assembly_says_so(tmp_path):
    from kerncap_stages.project.folder import Project

    empty = Project(tmp_path, tmp_path / "capture/store", "0" * 64, ())
    with pytest.raises(UsageError, match=r"kernel_variant\.s"):
        run_assemble(empty)
