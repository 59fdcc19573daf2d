"""Textures and surfaces are told by the lowest 12 bits of an instruction."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest

from kerncap_stages.code.sass import reads_clock, uses_textures

MOVE, EXIT = 0x202, 0x94D


def code(*opcodes: int) -> bytes:
    """Instructions with these opcodes, and other bits set above them."""
    return b"".join(struct.pack("<QQ", opcode | 0xABCD << 12, 0x60) for opcode in opcodes)


@pytest.mark.parametrize("opcode", [0x360, 0xB60, 0xF70, 0x394, 0x99F])
def test_an_instruction_of_textures_or_surfaces_is_found_among_others(opcode):
    assert uses_textures(code(MOVE, opcode, EXIT))


def test_other_instructions_are_none():
    assert not uses_textures(code(MOVE, 0x160, 0x460, 0x371, 0x3A0, EXIT))
    assert not uses_textures(b"")


def test_masked_arrays_are_not_imported_for_it():
    """They take 50 ms, and a capture's publication waits for this."""
    lines = (
        "import sys",
        "from kerncap_stages.code.sass import uses_textures",
        "assert not uses_textures(bytes(1 << 16))",
        "sys.exit('numpy.ma' in sys.modules)",
    )
    assert subprocess.run([sys.executable, "-c", "\n".join(lines)], check=False).returncode == 0


def special(opcode: int, register: int) -> bytes:
    """An instruction that reads a special register."""
    return struct.pack("<QQ", opcode | 0x27 << 12, register << 8 | 0xFCC << 40)


# As ptxas 13.5 writes `mov.u64 %rd1, %clock64` and `%globaltimer` for sm_75 to sm_121.
@pytest.mark.parametrize("register", [0x50, 0x51, 0x52, 0x53])
@pytest.mark.parametrize("opcode", [0x805, 0x919])
def test_a_clock_that_is_read_is_found_among_others(opcode, register):
    assert reads_clock(code(MOVE) + special(opcode, register) + code(EXIT))


def test_other_special_registers_are_no_clocks():
    assert not reads_clock(special(0x919, 0x21) + special(0x919, 0x43) + special(0x805, 0xFF))
    assert not reads_clock(special(0x202, 0x50))
    assert not reads_clock(b"")
