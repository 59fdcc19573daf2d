"""What cubins ask the driver's linker for: nvcc's own, with and without separate compilation."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap_stages.code.cubin_elf import read_sections
from kerncap_stages.code.cubin_links import Links

GOLDEN = Path(__file__).parents[1] / "golden/cuda"
WHOLE = (GOLDEN / "links.cubin").read_bytes()
SEPARATE = (GOLDEN / "links_separate.cubin").read_bytes()
OLDER = (GOLDEN / "links_sm80.cubin").read_bytes()  # has relocations without an addend
DEVICE = ("_ZTV6Square", "table", "values", "pointer", "zeros")
PLACES = {name: 0x7123_4567_0000 + 0x100 * index for index, name in enumerate(DEVICE)}


@pytest.mark.parametrize("code", [WHOLE, SEPARATE, OLDER], ids=["whole", "separate", "older"])
def test_variables_have_sizes_and_kinds(code):
    variables = Links(code).variables
    assert {name: variable.size_bytes for name, variable in variables.items()} == {
        "_ZTV6Square": 24, "table": 16, "values": 16, "pointer": 8, "constant_pointer": 8, "zeros": 16,
    }  # fmt: skip
    assert [name for name, variable in variables.items() if variable.is_const] == ["constant_pointer"]


@pytest.mark.parametrize("code", [WHOLE, SEPARATE, OLDER], ids=["whole", "separate", "older"])
def test_fixed_variables_leave_nothing_to_the_driver(code):
    made, fixed = Links(code).fix_variables(PLACES)
    assert fixed == set(DEVICE)
    assert len(made) == len(code)
    # Nothing refers to them any more, so a second time there is nothing to change.
    again, _ = Links(made).fix_variables(dict.fromkeys(DEVICE, 0x5555_5555_5555))
    assert again == made


@pytest.mark.parametrize("code", [WHOLE, OLDER], ids=["whole", "older"])
def test_tables_of_addresses_hold_the_places(code):
    made, _ = Links(code).fix_variables(PLACES)
    for name in DEVICE:
        assert struct.pack("<Q", PLACES[name]) in made
    assert struct.pack("<Q", PLACES["values"] + 4) in made  # pointer = &values[1]
    assert struct.pack("<Q", PLACES["values"] + 8) in made  # constant_pointer = &values[2]


def test_instructions_hold_both_halves_of_the_places():
    made, _ = Links(SEPARATE).fix_variables(PLACES)
    for name in ("table", "pointer", "zeros", "_ZTV6Square"):
        low = struct.pack("<I", PLACES[name] & 0xFFFFFFFF)
        assert made.count(low) > SEPARATE.count(low)
    assert made.count(struct.pack("<I", 0x7123)) >= SEPARATE.count(struct.pack("<I", 0x7123)) + 4


def test_what_is_not_asked_for_stays_with_the_driver():
    made, fixed = Links(WHOLE).fix_variables({"zeros": PLACES["zeros"], "gone": 1})
    assert fixed == {"zeros"}
    _, others = Links(made).fix_variables(PLACES)
    assert others == set(DEVICE)
    untouched, none = Links(WHOLE).fix_variables({})
    assert (untouched, none) == (WHOLE, frozenset())


def test_a_relocation_that_is_not_known_leaves_its_variable_alone():
    changed = bytearray(WHOLE)
    for each in Links(WHOLE)._relocations:
        if Links(WHOLE)._symbols[each.symbol].name == "zeros":
            struct.pack_into("<I", changed, each.at + 8, 0x77)
    made, fixed = Links(bytes(changed)).fix_variables(PLACES)
    assert fixed == set(DEVICE) - {"zeros"}
    assert struct.pack("<Q", PLACES["zeros"]) not in made


def test_a_place_that_holds_an_addend_of_its_own_leaves_its_variable_alone():
    links = Links(OLDER)
    changed = bytearray(OLDER)
    for each in links._relocations:
        if links._symbols[each.symbol].name == "zeros":
            changed[links._sections[each.section].offset + each.offset] = 8
    _, fixed = Links(bytes(changed)).fix_variables(PLACES)
    assert fixed == set(DEVICE) - {"zeros"}


def test_slots_of_functions_are_those_of_separate_compilation():
    slots = {
        (slot.function, slot.variable.name, slot.offset_bytes)
        for slot in Links(SEPARATE).find_function_slots()
    }
    assert slots == {
        ("_Z3onef", "table", 0),
        ("_Z3twof", "table", 8),
        ("_ZNK6Square4areaEf", "_ZTV6Square", 16),
    }
    assert Links(WHOLE).find_function_slots() == []


def test_functions_of_a_whole_program_have_numbers():
    numbers = Links(WHOLE).find_function_numbers("use")
    assert set(numbers.values()) == {"_Z3onef", "_Z3twof", "_ZNK6Square4areaEf"}
    one = next(number for number, name in numbers.items() if name == "_Z3onef")
    assert struct.pack("<Q", one) in WHOLE  # what table[0] is loaded with
    assert Links(SEPARATE).find_function_numbers("use") == {}


@given(st.integers(0, len(SEPARATE) - 1), st.integers(0, 255))
def test_a_changed_byte_is_read_or_damage(at, value):
    changed = bytearray(SEPARATE)
    changed[at] = value
    try:
        links = Links(bytes(changed))
        links.fix_variables(PLACES)
        links.find_function_slots()
        links.find_function_numbers("use")
    except (ValueError, IndexError, OverflowError, struct.error):
        return


def test_a_table_of_relocations_beyond_the_end_is_damage():
    table = next(each for each in read_sections(WHOLE) if each.name == ".rela.debug_frame")
    damaged = bytearray(WHOLE)
    struct.pack_into("<Q", damaged, table.header + 32, 1 << 62)
    with pytest.raises(ValueError, match="relocations beyond the end"):
        Links(bytes(damaged))
