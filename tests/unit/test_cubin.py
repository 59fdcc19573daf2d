"""What is read out of cubins, against a cubin of nvcc's whose source lies beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kerncap_stages.code.cubin import find_kernel_code
from kerncap_stages.code.kernel_facts import find_symbol, is_same_but_for_unit
from kerncap_stages.code.read import read_code_object
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests.kernel import CodeObjectFormat

CUBIN_FOLDER = Path(__file__).parents[1] / "golden/cuda"
CUBIN = (CUBIN_FOLDER / "facts.cubin").read_bytes()


def test_a_cubin_tells_its_kernels():
    facts = read_code_object(CUBIN)
    assert facts.format is CodeObjectFormat.CUBIN
    assert facts.isa == "sm_90"
    assert set(facts.kernels) == {"add", "_Z9incrementIfEvPT_", "_Z8allocatePPi"}


def test_parameters_have_offsets_and_sizes():
    add = read_code_object(CUBIN).kernels["add"]
    assert [(slot.offset_bytes, slot.size_bytes) for slot in add.slots] == [(0, 8), (8, 8), (16, 8), (24, 8)]
    assert add.kernarg_size_bytes == 32


def test_resources_of_a_kernel():
    add = read_code_object(CUBIN).kernels["add"]
    assert add.static_lds_bytes == 256  # 64 floats, without the KiB that the hardware keeps
    assert add.max_work_group_size == 256
    assert add.wavefront_size == 32
    assert 8 <= (add.registers.per_thread_count or 0) <= 64
    assert add.unsupported == ()


def test_the_device_heap_is_not_replayable():
    allocate = read_code_object(CUBIN).kernels["_Z8allocatePPi"]
    assert allocate.unsupported == ("the device's own heap (malloc in a kernel)",)


@pytest.mark.parametrize("keep", [20, 64, 1000, len(CUBIN) - 400])
def test_a_cubin_that_is_cut_short_is_damage(keep):
    with pytest.raises(ArtifactError):
        read_code_object(CUBIN[:keep])


@example(47, 128)  # an offset that no signed number holds
@given(st.integers(18, len(CUBIN) - 1), st.integers(0, 255))
def test_a_changed_byte_ends_in_facts_or_in_damage(at, value):
    changed = bytearray(CUBIN)
    changed[at] = value
    try:
        read_code_object(bytes(changed))
    except ArtifactError:
        return


def test_the_instructions_of_a_kernel_are_its_own_section():
    code = find_kernel_code(CUBIN, "add")
    assert code is not None
    assert len(code) % 16 == 0  # instructions have 16 bytes
    assert CUBIN.count(code) == 1
    assert find_kernel_code(CUBIN, "_Z9incrementIfEvPT_") not in (None, code)
    assert find_kernel_code(CUBIN, "ad") is None
    assert find_kernel_code(CUBIN[:200], "add") is None
    assert find_kernel_code(b"", "add") is None


def test_symbols_that_differ_in_the_name_of_the_unit():
    here = "_ZN36_GLOBAL__N__ad82676b_4_a_cu_acc5a52f4anonEPf"
    assert is_same_but_for_unit(here, "_ZN36_GLOBAL__N__ca0462f3_4_a_cu_acc5a52f4anonEPf")
    exports = "_ZN34_GLOBAL__N__{}_4_w_cu__Z1kPi6hiddenEPi"
    assert is_same_but_for_unit(exports.format("1295a4e2"), exports.format("5fce3129"))
    assert not is_same_but_for_unit(here, "_ZN36_GLOBAL__N__ca0462f3_4_b_cu_acc5a52f4anonEPf")
    assert not is_same_but_for_unit(here, "_ZN36_GLOBAL__N__ca0462f3_4_a_cu_acc5a52f4anonEPd")
    assert not is_same_but_for_unit("_Z5plainPf", "_Z5plainPd")


# As nvcc 13.0 names one variable before and after an edit that adds a function to its unit.
VALUES = "_ZN43_INTERNAL_{0}_12_functions_cu_{1}45_GLOBAL__N__{0}_12_functions_cu_{1}6valuesE"


def test_symbols_that_differ_in_what_else_their_unit_defines():
    before, after = VALUES.format("2b786969", "a08dc475"), VALUES.format("f7b836d8", "5fc946b7")
    assert is_same_but_for_unit(before, after)
    assert not is_same_but_for_unit(before, after.replace("6values", "6valued"))
    assert not is_same_but_for_unit(before, after.replace("_12_functions_cu", "_12_junctions_cu"))


def test_of_units_of_one_name_the_one_that_defines_the_same_is_taken():
    here, there = VALUES.format("2b786969", "a08dc475"), VALUES.format("0a0b0c0d", "5fc946b7")
    moved = VALUES.format("11112222", "a08dc475")
    assert find_symbol(here, [there, moved]) == moved
    assert find_symbol(here, [there]) == there
    assert find_symbol(here, [there, VALUES.format("33334444", "99998888")]) is None  # either may be meant
    assert find_symbol(here, [there, here]) == here
    assert find_symbol(here, ["_Z5plainPf"]) is None


def test_device_side_launches_are_found_where_the_device_runtime_is_linked_in():
    facts = read_code_object((CUBIN_FOLDER / "device_launch.cubin").read_bytes())
    assert facts.kernels["_Z5outerPi"].unsupported == ("device-side launches",)
    assert facts.kernels["_Z7throughPi"].unsupported == ("device-side launches",)
    assert facts.kernels["_Z5innerPi"].unsupported == ()


def test_textures_and_surfaces_are_found_wherever_their_handles_come_from():
    kernels = read_code_object((CUBIN_FOLDER / "textures.cubin").read_bytes()).kernels
    found = {name for name, kernel in kernels.items() if kernel.unsupported == ("textures or surfaces",)}
    assert found == {"fetch", "sample_hidden", "load", "store", "through_a_function"}
    assert kernels["plain"].unsupported == ()
