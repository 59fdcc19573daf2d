"""What a compiled code object says about its kernels."""

from __future__ import annotations

import pytest

from kerncap_stages.code_object import read_code_object
from kerncap_stages.errors import ArtifactError


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
