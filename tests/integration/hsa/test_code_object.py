"""What a compiled code object says about its kernels, and kernels that no code object tells of."""

from __future__ import annotations

import pytest
from elftools.elf.elffile import ELFFile

from kerncap_stages.code.read import read_code_object
from kerncap_stages.errors import ArtifactError, ExitCode


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_a_kernel_as_the_compiler_describes_it(program, target):
    facts = read_code_object(program("described_kernels", target).read_bytes())
    assert facts.isa.startswith(f"amdgcn-amd-amdhsa--{target}")
    assert facts.abi_version >= 5
    kernel = facts.kernels["described"]
    explicit = [slot for slot in kernel.slots if not slot.is_hidden]
    assert [(slot.offset_bytes, slot.size_bytes, slot.value_kind) for slot in explicit] == [
        (0, 8, "global_buffer"),
        (8, 8, "global_buffer"),
        (16, 12, "by_value"),
        (28, 2, "by_value"),
    ]
    assert kernel.kernarg_size_bytes >= 30
    assert kernel.static_lds_bytes == 96 * 4
    assert kernel.max_work_group_size == 128
    assert kernel.wavefront_size == 64
    assert kernel.registers.vgpr_count > 0
    assert (kernel.preload_offset_dwords, kernel.uses_dynamic_stack) == (0, False)


def test_several_kernels_are_told_apart(program):
    facts = read_code_object(program("words_kernels").read_bytes())
    assert set(facts.kernels) == {"other", "target", "spin_until_set", "unread"}


def test_damage_is_named_and_never_a_crash(program):
    whole = program("words_kernels").read_bytes()
    for length in (0, 3, 63, 64, 200, len(whole) // 2):
        with pytest.raises(ArtifactError):
            read_code_object(whole[:length])
    with pytest.raises(ArtifactError):
        read_code_object(b"\x7fELF" + bytes(1000))
    for at in range(0, min(len(whole), 4096), 7):
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        try:
            read_code_object(bytes(damaged))
        except ArtifactError:
            continue


def test_kernels_that_the_loader_does_not_list(stages, program):
    """The program runs code from a copy of its own: a row of the profile, and no name to capture it by."""
    command = [program("own_descriptors"), program("words_kernels"), "copied"]
    (profile,) = stages.run("profile", "--", *command).must().digests
    kernels = {kernel["name"]: kernel for kernel in stages.show(profile)["kernels"]}
    unlisted = "(kernels of no loaded code object)"
    assert {name: kernel["calls"] for name, kernel in kernels.items()} == {"other": 1, unlisted: 1}
    assert kernels[unlisted]["mangled_name"] is None
    done = stages.run("capture", "--rank", 1 + list(kernels).index(unlisted), profile)
    done.must(ExitCode.REFUSED)
    assert "no loaded code object lists cannot be captured" in done.err
    done = stages.run("capture", "--kernel", "target", "--", *command).must(ExitCode.ANSWER_IS_NO)
    assert "it dispatched kernels that no loaded code object lists 1 time" in done.err
    (digest,) = stages.capture("other", *command)
    assert stages.replay(digest).must().manifest["matches_golden"] is True


def test_a_descriptor_that_the_program_changed_is_refused(stages, program):
    """Under the name of one kernel the code of another would be captured."""
    printed = stages.folder / "printed"
    command = [program("own_descriptors"), program("words_kernels"), "altered"]
    done = stages.run("capture", "--kernel", "unread", "--app-stdout", printed, "--", *command)
    done.must(ExitCode.REFUSED)
    assert "changed the kernel's descriptor" in done.err
    assert done.digests == []
    assert "wrong 0" in printed.read_text()
    (digest,) = stages.capture("other", *command)
    assert stages.replay(digest).must().manifest["matches_golden"] is True


def test_headers_are_read_once_however_many_kernels_there_are(program, monkeypatch):
    """A library of thousands of kernels took minutes when they were read for each."""
    reads = []
    iter_segments = ELFFile.iter_segments
    monkeypatch.setattr(ELFFile, "iter_segments", lambda *words: reads.append(words) or iter_segments(*words))
    facts = read_code_object(program("words_kernels").read_bytes())
    assert len(facts.kernels) > 1
    assert len(reads) == 2  # for notes, for what is loaded
