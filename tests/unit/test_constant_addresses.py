"""Kernels whose addresses are at other places of a constant bank: nvcc's own cubins, and damaged ones."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kerncap_stages.code.constant_addresses import has_same_code
from kerncap_stages.code.cubin import find_kernel_code
from kerncap_stages.code.cubin_elf import read_sections

GOLDEN = Path(__file__).parents[1] / "golden/cuda"
WHOLE = (GOLDEN / "texts.cubin").read_bytes()
ALONE = (GOLDEN / "texts_alone.cubin").read_bytes()
KERNEL = "_Z4saysPi"


def is_same(alone: bytes) -> bool:
    return has_same_code(WHOLE, KERNEL, alone, KERNEL)


def test_the_same_addresses_at_other_places_are_the_same_code():
    assert find_kernel_code(WHOLE, KERNEL) != find_kernel_code(ALONE, KERNEL)
    assert is_same(ALONE)
    assert is_same(WHOLE)


def test_the_address_of_another_text_is_other_code():
    assert ALONE.count(b"and %d\n") == 1
    assert not is_same(ALONE.replace(b"and %d\n", b"end %d\n"))


def test_the_address_of_another_variable_is_other_code():
    assert ALONE.count(b"\0seen\0") == 1
    assert not is_same(ALONE.replace(b"\0seen\0", b"\0sees\0"))


def test_the_place_of_a_function_may_be_in_a_register():
    """Exchange the places of ``vprintf`` and ``seen``: a MOV of a number has the first, an LDC the second."""
    made = bytearray(ALONE)
    (table,) = (each for each in read_sections(ALONE) if each.name == ".rela.nv.constant4")
    for at in range(table.offset, table.offset + table.size, 24):
        (place,) = struct.unpack_from("<Q", made, at)
        struct.pack_into("<Q", made, at, {0: 8, 8: 0}.get(place, place))
    assert not is_same(bytes(made))
    code = find_kernel_code(ALONE, KERNEL)
    assert code is not None
    words = [int.from_bytes(code[at : at + 16], "little") for at in range(0, len(code), 16)]
    number = next(at for at, word in enumerate(words) if word & 0xFFF == 0x802)
    variable = next(at for at, word in enumerate(words) if word & 0xFFF == 0xB82 and word >> 38 & 0xFFFF == 8)
    words[number] |= 8 << 32
    words[variable] &= ~(0xFFFF << 38)
    start = ALONE.index(code)
    made[start : start + len(code)] = b"".join(word.to_bytes(16, "little") for word in words)
    assert is_same(bytes(made))


def test_any_other_difference_is_other_code():
    code = find_kernel_code(ALONE, KERNEL)
    assert code is not None
    start = ALONE.index(code)
    for at in (0, 5, len(code) // 2, len(code) - 1):
        changed = bytearray(ALONE)
        changed[start + at] ^= 1
        assert not is_same(bytes(changed)), at


@pytest.mark.parametrize("size", [0, 100, 1000, 3000])
def test_a_damaged_cubin_has_other_code(size):
    assert not is_same(ALONE[:size])


def test_equal_instructions_with_the_address_of_another_variable_are_other_code():
    """An LDC of ``seen`` reads the same place, which holds another address."""
    assert not has_same_code(ALONE, KERNEL, ALONE.replace(b"\0seen\0", b"\0sees\0"), KERNEL)
    assert not has_same_code(ALONE, KERNEL, ALONE.replace(b"and %d\n", b"end %d\n"), KERNEL)


def test_equal_instructions_that_are_linked_to_another_variable_or_function_are_other_code():
    """With separate compilation, instructions have relocations against symbols."""
    whole = (GOLDEN / "links_separate.cubin").read_bytes()
    assert has_same_code(whole, "use", whole, "use")
    for symbol in (b"table", b"_ZTV6Square", b"_Z3twof"):
        assert whole.count(b"\0" + symbol + b"\0") == 1
        renamed = whole.replace(b"\0" + symbol + b"\0", b"\0" + symbol[:-1] + b"_\0")
        assert not has_same_code(whole, "use", renamed, "use"), symbol


def test_a_number_is_a_place_only_where_the_bank_is_read_with_it():
    """A MOV behind the last read has the numbers that are the places of ``seen`` in the two cubins."""
    made = []
    for cubin in (WHOLE, ALONE):
        code = find_kernel_code(cubin, KERNEL)
        assert code is not None
        words = [int.from_bytes(code[at : at + 16], "little") for at in range(0, len(code), 16)]
        move = next(word for word in words if word & 0xFFF == 0x802) & ~(0xFFFFFFFF << 32)
        reads = [at for at, word in enumerate(words) if word & 0xFFF == 0xB82 and word >> 54 & 31 == 4]
        seen = reads[-1] if words[reads[-1]] >> 24 & 255 == 255 else reads[-2]
        words[reads[-1] + 1] = move | (words[seen] >> 38 & 0xFFFF) << 32
        made.append(cubin.replace(code, b"".join(word.to_bytes(16, "little") for word in words)))
    assert made[0] != WHOLE
    assert not has_same_code(made[0], KERNEL, made[1], KERNEL)


def test_code_for_an_older_gpu_reads_halves_of_addresses():
    """For sm_80, ptxas reads them by IMAD: the upper half is 4 bytes behind the lower one."""
    whole, alone = ((GOLDEN / name).read_bytes() for name in ("texts_sm80.cubin", "texts_alone_sm80.cubin"))
    assert find_kernel_code(whole, KERNEL) != find_kernel_code(alone, KERNEL)
    assert has_same_code(whole, KERNEL, alone, KERNEL)
    assert not has_same_code(whole, KERNEL, alone.replace(b"and %d\n", b"end %d\n"), KERNEL)
    assert not has_same_code(whole, KERNEL, alone.replace(b"\0seen\0", b"\0sees\0"), KERNEL)
