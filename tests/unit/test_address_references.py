"""Addresses that machine code computes relative to the program counter."""

from __future__ import annotations

import struct

import pytest

from kerncap_stages.code.address_references import find_references

# An ELF file with one executable segment: the words at address 0x1000, offset 0x100.
ADDRESS, OFFSET = 0x1000, 0x100


def make_file(*words: int) -> bytes:
    text = struct.pack(f"<{len(words)}I", *words)
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 224, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, OFFSET, ADDRESS, ADDRESS, len(text), len(text), 0x1000)
    return (header + segment).ljust(OFFSET, b"\0") + text


# What LLVM writes, as llvm-objdump shows it: s_getpc_b64 and the additions, for s[4:5] or s[8:9].
@pytest.mark.parametrize(
    ("words", "low", "high", "absolute"),
    [
        # gfx90a
        ((0xBE841C00, 0x8004FF04, 0x246C, 0x8205FF05, 0), 2, 4, 0xBE840180),
        # gfx1030
        ((0xBE841F00, 0x8004FF04, 0x246C, 0x8205FF05, 0), 2, 4, 0xBE840480),
        # gfx1200, with an extension and with waits
        (
            (0xBE884700, 0xBF88FFFE, 0xBE890F09, 0x8008FF08, 0x246C, 0xBF88FFFE, 0x8209FF09, 0),
            4,
            7,
            0xBE880180,
        ),
    ],
)
def test_an_address_is_found_with_its_places(words, low, high, absolute):
    (found,) = find_references(make_file(0xBF800000, *words)).found
    assert (found.at, found.low, found.high) == (OFFSET + 4, OFFSET + 4 + 4 * low, OFFSET + 4 + 4 * high)
    assert found.target == ADDRESS + 8 + 0x246C
    assert found.absolute == absolute


def test_a_distance_may_be_negative():
    (found,) = find_references(make_file(0xBE821C00, 0x8002FF02, 0xFFFFFF00, 0x8203FF03, 0xFFFFFFFF)).found
    assert found.target == ADDRESS + 4 - 0x100


@pytest.mark.parametrize(
    "words",
    [
        (0xBE841C00,),
        (0xBE841C00, 0x8004FF04, 0x246C),
        (0xBE841C00, 0x8006FF06, 0x246C, 0x8207FF07, 0),  # other registers
        (0xBE841C00, 0xBF88FFFE, 0x8004FF04, 0x246C, 0x8205FF05, 0),  # on gfx90a that is a branch
        (0xBE841C00, 0x80040604, 0x82050705, 0xBF800000, 0xBF800000),  # from registers
    ],
)
def test_any_other_use_is_unknown(words):
    references = find_references(make_file(*words))
    assert (references.found, references.unknown) == ((), 1)
