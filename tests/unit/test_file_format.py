"""What a file of code is, by its first bytes."""

import struct

import pytest

from kerncap_stages.code.file_format import FileFormat, find_format


def elf(machine: int) -> bytes:
    return b"\x7fELF\x02\x01\x01".ljust(18, b"\0") + struct.pack("<H", machine) + bytes(44)


FILES = {
    "an AMD code object": (elf(224), FileFormat.ELF),
    "a program of the host": (elf(62), FileFormat.ELF),
    "a cubin": (elf(190), FileFormat.CUBIN),
    "an ELF header cut off": (elf(190)[:19], FileFormat.ELF),
    "PTX behind comments": (b"// made\n/* by */\n.version 8.0\n.target sm_90\n", FileFormat.PTX),
    "PTX in a comment": (b"/* .version 8.0 */ text", FileFormat.UNKNOWN),
    "a fatbin": (struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 0), FileFormat.FATBIN),
    "a fatbin cut off": (struct.pack("<IH", 0xBA55ED50, 1), FileFormat.UNKNOWN),
    "a bundle": (b"__CLANG_OFFLOAD_BUNDLE__" + bytes(8), FileFormat.BUNDLE),
    "a compressed bundle": (b"CCOB\x03\0\x01\0", FileFormat.COMPRESSED_BUNDLE),
    "nothing": (b"", FileFormat.UNKNOWN),
}


@pytest.mark.parametrize(("data", "expected"), FILES.values(), ids=FILES)
def test_the_first_bytes_tell_a_format(data, expected):
    assert find_format(data) is expected
