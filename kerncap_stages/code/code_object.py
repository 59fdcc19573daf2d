"""Reads code objects for AMD GPUs: the metadata note, the kernel descriptors, the symbols of data.

The note has the type NT_AMDGPU_METADATA and the owner AMDGPU; LLVM's AMDGPU usage guide describes all of it.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from kerncap_stages.code.amd_metadata import read_kernels, unpack_note
from kerncap_stages.code.elf import ELFFile
from kerncap_stages.code.elf_damage import convert_elf_errors
from kerncap_stages.code.kernel_facts import CodeObjectFacts
from kerncap_stages.code.targets import parse_elf_target
from kerncap_stages.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Iterator


_NT_AMDGPU_METADATA = 32
_EM_AMDGPU = 224
_SHF_WRITE = 1
# kernel_descriptor_t: kernarg_preload is at byte 58; bits 0..6 length, 7..15 offset, both in dwords.
_DESCRIPTOR_BYTES = 64
_PRELOAD_AT = 58
# Elf64_Sym: name (offset in the table of strings), info, other, section, value, size.
_SYMBOL = struct.Struct("<IBBHQQ")
_STT_OBJECT, _STT_FUNC = 1, 2
_STB_GLOBAL = 1
_SHN_UNDEFINED, _SHN_FIRST_RESERVED = 0, 0xFF00


def read_amd(data: bytes) -> CodeObjectFacts:
    """Parse a code object for AMD GPUs.

    Raises ArtifactError if it is not one, is damaged or has no metadata.
    """
    with convert_elf_errors(hint="compile it again"):
        elf = ELFFile(io.BytesIO(data))
        if elf["e_machine"] not in ("EM_AMDGPU", _EM_AMDGPU):
            raise ArtifactError(
                "an ELF file, but not a code object for a GPU", hint="give a code object that a compiler made"
            )
        metadata = _read_metadata(elf)
        preloads = _read_preloads(elf, data)
        # ABI version 0 is code object version 2, 1 is 3, and so on.
        abi_version = elf["e_ident"]["EI_ABIVERSION"] + 2
        # A code object that was linked from several has the notes of all of them.
        kernels = dict(each for note in metadata for each in read_kernels(note, preloads))
        return CodeObjectFacts(_find_isa(elf, metadata[0]), abi_version, kernels)


def _find_isa(elf: ELFFile, metadata: dict[str, Any]) -> str:
    """Return the ISA from the ELF header, as ROCr's loader does: the metadata may lack or misspell it."""
    named = parse_elf_target(elf["e_flags"], elf["e_ident"]["EI_ABIVERSION"])
    return named.isa if named is not None else str(metadata.get("amdhsa.target", "unknown"))


@dataclass(frozen=True)
class DataSymbol:
    """A variable, table or function of a code object. ``offset_bytes`` is relative to its load address."""

    name: str
    offset_bytes: int
    size_bytes: int


def list_data_symbols(data: bytes) -> tuple[DataSymbol, ...]:
    """List all data that has a name, also static data: the runtime lists exported symbols only.

    Raises ArtifactError if the bytes are not an ELF file.
    """
    return tuple(each for each, kind, _ in _list_symbols(data) if kind == _STT_OBJECT)


def list_writable_data(data: bytes) -> tuple[DataSymbol, ...]:
    """List the data that has a name and lies in a writable section.

    Raises ArtifactError if the bytes are not an ELF file.
    """
    listed = _list_symbols(data)
    return tuple(each for each, kind, flags in listed if kind == _STT_OBJECT and flags & _SHF_WRITE)


def list_named_places(data: bytes) -> list[DataSymbol]:
    """List all data and functions that have a name.

    Raises ArtifactError if the bytes are not an ELF file.
    """
    return [each for each, kind, _ in _list_symbols(data) if kind in (_STT_OBJECT, _STT_FUNC)]


def list_changing_data(data: bytes) -> list[DataSymbol]:
    """List the data that has a name and that a kernel or the program may change.

    Constant memory (``__constant__``) lies where no kernel may write, and has an exported symbol, by which
    the program writes to it. Constant tables have none. Only the loader writes tables of virtual functions.
    Raises ArtifactError if the bytes are not an ELF file.
    """
    with convert_elf_errors(hint="compile it again"):
        elf = ELFFile(io.BytesIO(data))
        exported = {symbol.name for symbol in _read_symbols(elf, ".dynsym") if symbol.bind == _STB_GLOBAL}
        begin = _find_first_address(elf)
        constant = [
            range(section["sh_addr"] - begin, section["sh_addr"] - begin + section["sh_size"])
            for section in elf.iter_sections()
            if section.name.startswith(".data.rel.ro")
        ]
    writable = {
        each for each in list_writable_data(data) if not any(each.offset_bytes in c for c in constant)
    }
    return [each for each in list_data_symbols(data) if each in writable or each.name in exported]


@dataclass(frozen=True)
class _Symbol:
    """An entry of a table of symbols, with ELF's own numbers."""

    name: str
    kind: int
    bind: int
    section: int
    value: int
    size_bytes: int


def _read_symbols(elf: ELFFile, table_name: str) -> Iterator[_Symbol]:
    """Yield the entries of a table of symbols; none if there is no such table.

    pyelftools takes 50 us for each, and a library's code object has thousands.
    """
    table = cast("Any", elf.get_section_by_name(table_name))
    if table is None:
        return
    names = cast("Any", elf.get_section(table["sh_link"])).data()
    for at, info, _, section, value, size_bytes in _SYMBOL.iter_unpack(table.data()):
        name = names[at : names.index(b"\0", at)].decode("utf-8", "backslashreplace")
        yield _Symbol(name, info & 0xF, info >> 4, section, value, size_bytes)


@lru_cache(maxsize=2)  # each replay and each state of a verdict asks for those of one code object or another
def _list_symbols(data: bytes) -> tuple[tuple[DataSymbol, int, int], ...]:
    """Return all data and functions that have a name, their kinds, and the flags of their sections."""
    with convert_elf_errors(hint="capture the kernel again"):
        elf = ELFFile(io.BytesIO(data))
        begin = _find_first_address(elf)
        section_flags = [section["sh_flags"] for section in elf.iter_sections()]
        return tuple(
            (
                DataSymbol(symbol.name, symbol.value - begin, symbol.size_bytes),
                symbol.kind,
                section_flags[symbol.section],
            )
            for symbol in _read_symbols(elf, ".symtab")
            if symbol.kind in (_STT_OBJECT, _STT_FUNC)
            and _SHN_UNDEFINED < symbol.section < _SHN_FIRST_RESERVED
            and symbol.size_bytes
            and symbol.name
            # Kernel descriptors are data, too, but no kernel reads them.
            and not symbol.name.endswith(".kd")
        )


def find_first_address(data: bytes) -> int:
    """Return the lowest address of what is loaded: 0 in what LLVM makes.

    Raises ArtifactError if the bytes are not an ELF file.
    """
    with convert_elf_errors(hint="compile it again"):
        return _find_first_address(ELFFile(io.BytesIO(data)))


def read_initial(data: bytes, offset_bytes: int, size_bytes: int) -> bytes | None:
    """Return what the file gives a piece of memory, at an offset from the load address, before it is linked.

    None if the file does not load all of it. Raises ArtifactError if the bytes are not an ELF file.
    """
    with convert_elf_errors(hint="capture the kernel again"):
        elf = ELFFile(io.BytesIO(data))
        begin = _find_first_address(elf) + offset_bytes
        for segment in elf.iter_segments("PT_LOAD"):
            at = begin - segment["p_vaddr"]
            if at >= 0 and at + size_bytes <= segment["p_memsz"]:
                first = segment["p_offset"] + min(at, segment["p_filesz"])
                held = data[first : segment["p_offset"] + min(at + size_bytes, segment["p_filesz"])]
                return held + bytes(size_bytes - len(held))
    return None


def _find_first_address(elf: ELFFile) -> int:
    return min((segment["p_vaddr"] for segment in elf.iter_segments("PT_LOAD")), default=0)


def _read_metadata(elf: ELFFile) -> list[dict[str, Any]]:
    found = []
    for segment in elf.iter_segments("PT_NOTE"):
        for note in cast("Any", segment).iter_notes():
            if note["n_name"] == "AMDGPU" and note["n_type"] in (_NT_AMDGPU_METADATA, "NT_AMDGPU_METADATA"):
                text = note["n_desc"]
                raw = text.encode("latin-1") if isinstance(text, str) else bytes(text)
                if (unpacked := unpack_note(raw)) is not None:
                    found.append(unpacked)
    if not found:
        raise ArtifactError(
            "the code object has no metadata note", hint="code object version 3 or later is needed"
        )
    return found


def _read_preloads(elf: ELFFile, data: bytes) -> dict[str, tuple[int, int]]:
    """Return (offset, length) of the preloaded kernarg in dwords, for each kernel."""
    # Read once: pyelftools reads all headers again for each call, and a library may have thousands of
    # kernels.
    loads = [
        (segment["p_vaddr"], segment["p_offset"], segment["p_filesz"])
        for segment in elf.iter_segments("PT_LOAD")
    ]
    found = {}
    for symbol in _read_symbols(elf, ".dynsym"):
        if not symbol.name.endswith(".kd"):
            continue
        for begin, offset, size_bytes in loads:
            at = symbol.value - begin
            if at >= 0 and at + _DESCRIPTOR_BYTES <= size_bytes:
                (word,) = struct.unpack_from("<H", data, offset + at + _PRELOAD_AT)
                found[symbol.name.removesuffix(".kd")] = (word >> 7, word & 0x7F)
    return found
