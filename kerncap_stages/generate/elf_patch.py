"""Changes one kernel in the image of a code object, and nothing else."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from kerncap_stages.code.elf import ELFError, ELFFile
from kerncap_stages.code.elf_damage import convert_elf_errors
from kerncap_stages.errors import UsageError

_S_NOP = struct.pack("<I", 0xBF800000)
_PAGE = 0x1000
_PT_LOAD, _PT_GNU_STACK = 1, 0x6474E551
_READ_EXECUTE = 5
_SHT_PROGBITS, _ALLOCATED_CODE = 1, 6
_SECTIONS_OFFSET_AT, _SECTIONS_COUNT_AT = 40, 60  # in the ELF header: e_shoff, e_shnum
# Instructions are fetched ahead of the last one.
_FETCHED_AHEAD_BYTES = 256
_ENTRY_AT = 16  # int64 in a kernel descriptor: distance from the descriptor to the first instruction
_DESCRIPTOR_BYTES = 64
_AGAIN = "capture the kernel again"


@dataclass(frozen=True)
class KernelPlace:
    """Where a kernel is in a code object. ``room_bytes``: from its start to the next symbol."""

    symbol: str
    address: int
    size_bytes: int
    room_bytes: int
    file_offset: int
    descriptor_address: int | None
    descriptor_offset: int | None


class Image:
    """The bytes of a code object, to be changed. Methods raise ArtifactError if the file is damaged."""

    def __init__(self, code: bytes) -> None:
        """Raises UsageError if the code is not an ELF file."""
        self._bytes = bytearray(code)
        try:
            self._elf = ELFFile(io.BytesIO(code))
        except ELFError as error:
            raise UsageError(f"not a code object: {error}", hint=_AGAIN) from error

    @property
    def content(self) -> bytes:
        """The bytes with all changes."""
        return bytes(self._bytes)

    @convert_elf_errors(_AGAIN)
    def find_kernel(self, symbol: str) -> KernelPlace:
        """Find a kernel by its symbol.

        Raises UsageError if it is not there.
        """
        entry = self._find_symbol(symbol)
        if entry is None:
            raise UsageError(f"the code object has no symbol {symbol}", hint=_AGAIN)
        section = self._elf.get_section(entry["st_shndx"])
        start, end = section["sh_addr"], section["sh_addr"] + section["sh_size"]
        address = entry["st_value"]
        min_end = address + max(1, entry["st_size"])
        after = min((value for value in self._find_ends(entry) if value >= min_end), default=end)
        offset = section["sh_offset"] + address - start
        # Linkers pad sections with zeros, which are not part of the kernel.
        unsized = len(self._bytes[offset : offset + after - address].rstrip(b"\0"))
        size = entry["st_size"] or -(-unsized // 4) * 4
        descriptor = self._find_symbol(f"{symbol}.kd")
        at = None if descriptor is None else int(descriptor["st_value"])
        descriptor_offset = None if at is None else self._find_file_offset(at)
        return KernelPlace(symbol, address, size, after - address, offset, at, descriptor_offset)

    @convert_elf_errors(_AGAIN)
    def find_next_address(self) -> int:
        """Return the first page address after all loaded segments."""
        loads = [each for each in self._elf.iter_segments() if each["p_type"] == "PT_LOAD"]
        end = max(each["p_vaddr"] + each["p_memsz"] for each in loads)
        return -(-end // _PAGE) * _PAGE

    def replace_kernel(self, place: KernelPlace, made: bytes) -> None:
        """Write instructions to the kernel's own place; the rest of the old instructions becomes s_nop."""
        size = max(place.size_bytes, len(made))
        filled = made + _S_NOP * ((size - len(made)) // 4)
        self._bytes[place.file_offset : place.file_offset + len(filled)] = filled

    @convert_elf_errors(_AGAIN)
    def move_kernel(self, place: KernelPlace, made: bytes, address: int) -> None:
        """Write instructions to a new segment at the end, and make the descriptor point there.

        Raises UsageError if the code object has no descriptor, or no program header to spare.
        """
        spare = next(
            (i for i, each in enumerate(self._elf.iter_segments()) if each["p_type"] == "PT_GNU_STACK"), None
        )
        if spare is None or place.descriptor_offset is None or place.descriptor_address is None:
            raise UsageError(
                f"the kernel is larger than its {place.room_bytes} bytes, and there is no room for more",
                hint="make it shorter",
            )
        content = made + _S_NOP * (_FETCHED_AHEAD_BYTES // 4)
        self._bytes += bytes(-len(self._bytes) % _PAGE)
        offset = len(self._bytes)
        self._bytes += content
        header = self._elf["e_phoff"] + spare * self._elf["e_phentsize"]
        size = len(content)
        struct.pack_into(
            "<IIQQQQQQ",
            self._bytes,
            header,
            *(_PT_LOAD, _READ_EXECUTE, offset, address, address, size, size, _PAGE),
        )
        entry = address - place.descriptor_address
        struct.pack_into("<q", self._bytes, place.descriptor_offset + _ENTRY_AT, entry)
        self._move_symbol(place, address, len(made), section=self._add_section(offset, address, size))

    def replace_descriptor(self, place: KernelPlace, descriptor: bytes) -> None:
        """Replace the descriptor, except the distance to the first instruction."""
        if place.descriptor_offset is None:
            return
        at = place.descriptor_offset
        self._bytes[at : at + _ENTRY_AT] = descriptor[:_ENTRY_AT]
        rest = slice(_ENTRY_AT + 8, _DESCRIPTOR_BYTES)
        self._bytes[at + rest.start : at + rest.stop] = descriptor[rest]

    def _find_ends(self, entry: Any) -> set[int]:
        """Find the addresses in a kernel's section where something else may begin.

        Labels may be symbols without a type, hundreds in each of Tensile's kernels. If the kernel has no
        size, they count as its own.
        """
        symbols = self._all_symbols
        kernels = {each.name.removesuffix(".kd") for each in symbols if each.name.endswith(".kd")}
        return {
            each["st_value"]
            for each in symbols
            if each["st_shndx"] == entry["st_shndx"]
            and (entry["st_size"] or each["st_info"]["type"] != "STT_NOTYPE" or each.name in kernels)
        }

    @cached_property
    def _all_symbols(self) -> list[Any]:
        found: list[Any] = []
        for name in (".symtab", ".dynsym"):
            table = cast("Any", self._elf.get_section_by_name(name))
            found += list(table.iter_symbols()) if table is not None else []
        return [each for each in found if isinstance(each["st_shndx"], int)]

    def _find_symbol(self, name: str) -> Any:
        return next((each for each in self._all_symbols if each.name == name), None)

    def _add_section(self, offset: int, address: int, size_bytes: int) -> int:
        """Add a section of instructions; returns its index.

        The table of sections moves to the end of the file, because HIP assumes that the file ends with it.
        """
        count = self._elf["e_shnum"]
        entry_bytes = self._elf["e_shentsize"]
        table = self._elf["e_shoff"]
        name = cast("Any", self._elf.get_section_by_name(".text"))["sh_name"]
        self._bytes += bytes(-len(self._bytes) % 8)
        moved = len(self._bytes)
        self._bytes += self._bytes[table : table + count * entry_bytes]
        self._bytes += struct.pack(
            "<IIQQQQIIQQ", name, _SHT_PROGBITS, _ALLOCATED_CODE, address, offset, size_bytes, 0, 0, 256, 0
        )
        struct.pack_into("<Q", self._bytes, _SECTIONS_OFFSET_AT, moved)
        struct.pack_into("<H", self._bytes, _SECTIONS_COUNT_AT, count + 1)
        return int(count)

    def _move_symbol(self, place: KernelPlace, address: int, size_bytes: int, *, section: int) -> None:
        for name in (".symtab", ".dynsym"):
            table = cast("Any", self._elf.get_section_by_name(name))
            for i, each in enumerate(table.iter_symbols() if table is not None else ()):
                if each.name == place.symbol:
                    at = table["sh_offset"] + i * table["sh_entsize"]
                    struct.pack_into("<HQQ", self._bytes, at + 6, section, address, size_bytes)

    def _find_file_offset(self, address: int) -> int | None:
        for segment in self._elf.iter_segments():
            at = address - segment["p_vaddr"]
            if segment["p_type"] == "PT_LOAD" and 0 <= at < segment["p_filesz"]:
                return int(segment["p_offset"] + at)
        return None


def read_object_sections(data: bytes) -> tuple[bytes, bytes | None, list[str]]:
    """Return the instructions, kernel descriptor and undefined symbols of an assembled object."""
    elf = ELFFile(io.BytesIO(data))
    text = cast("Any", elf.get_section_by_name(".text"))
    constants = elf.get_section_by_name(".rodata")
    descriptor = bytes(constants.data()[:_DESCRIPTOR_BYTES]) if constants is not None else None
    return bytes(text.data()), descriptor, _list_undefined(elf)


def _list_undefined(elf: ELFFile) -> list[str]:
    relocations = cast("Any", elf.get_section_by_name(".rela.text"))
    table = cast("Any", elf.get_section_by_name(".symtab"))
    if relocations is None:
        return []
    names = {table.get_symbol(each["r_info_sym"]).name for each in relocations.iter_relocations()}
    return sorted(names)
