"""Reads NVIDIA cubins: the sections of each kernel, and the attributes in ``.nv.info``.

NVIDIA documents neither. The meanings used here were checked against the output of nvcc 13.0 and cuobjdump.
A cubin is an ELF file for machine 190 (EM_CUDA). ``.nv.info.<kernel>`` is a list of
format:u8 attribute:u8 value:u16, and for format 4 the value is the size of what follows.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kerncap_stages.code.cubin_elf import STO_ENTRY, STT_FUNC, read_sections, read_symbols
from kerncap_stages.code.file_format import FileFormat, find_format
from kerncap_stages.code.kernel_facts import CodeObjectFacts, KernelFacts, find_symbol
from kerncap_stages.code.sass import uses_textures
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests.kernel import CodeObjectFormat, KernargSlot, Registers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerncap_stages.code.cubin_elf import Section, Symbol

_ET_REL = 1

_RELOCATION = struct.Struct("<QQq")
_FORMAT_SIZED = 4
# Attributes of .nv.info (EIATTR_*), as cuobjdump -elf names them.
_MAX_THREADS = 0x05
_EXTERNS = 0x0F
_REQUIRED_THREADS = 0x10
_FRAME_SIZE = 0x11
_PARAMETER = 0x17
_PARAMETER_BYTES = 0x19
_REGISTER_COUNT = 0x2F
_TEXTURES_AND_SURFACES = {0x02, 0x06, 0x13, 0x14, 0x15}
_TEXT = ".text."
# Hopper and later GPUs reserve the first KiB of shared memory, and the section's size includes it.
_RESERVED_SHARED_BYTES = 1024
_ACCELERATED_V7, _ACCELERATED_V8 = 0x800, 0x8  # in the ELF header's flags
_ACCELERATED = 0x09  # in .nv.compat


def is_relocatable(data: bytes) -> bool:
    """Whether a cubin was compiled for linking (-rdc=true, -dc) and not linked: it cannot be loaded."""
    kind: int = struct.unpack_from("<H", data, 16)[0]
    return kind == _ET_REL


def read_cubin(data: bytes) -> CodeObjectFacts:
    """Parse a cubin.

    Raises ArtifactError if it is not a cubin or is damaged.
    """
    try:
        return _read(data)
    except (struct.error, IndexError, OverflowError, ValueError) as error:
        raise ArtifactError(f"damaged cubin: {error}", hint="compile it again") from error


def find_kernel_code(data: bytes, symbol: str) -> bytes | None:
    """Return the instructions of a kernel, ignoring the unit's mark in its name; None if it is not there."""
    try:
        sections = read_sections(data) if find_format(data) is FileFormat.CUBIN else []
    except (struct.error, IndexError, OverflowError, ValueError):
        return None  # the file may be malformed
    texts = {each.name.removeprefix(_TEXT): each for each in sections if each.name.startswith(_TEXT)}
    name = find_symbol(symbol, texts)
    return None if name is None else data[texts[name].offset : texts[name].offset + texts[name].size]


def find_all_code(data: bytes) -> list[bytes]:
    """Return the instructions of all kernels and functions. Raises ArtifactError if the cubin is damaged."""
    try:
        sections = [each for each in read_sections(data) if each.name.startswith(_TEXT)]
    except (struct.error, IndexError, OverflowError, ValueError) as error:
        raise ArtifactError(f"damaged cubin: {error}", hint="compile it again") from error
    return [data[each.offset : each.offset + each.size] for each in sections]


def find_embedded_ptx(data: bytes) -> bytes | None:
    """Return the PTX that a cubin was compiled from; None if it has no line information (``-lineinfo``)."""
    section = _read_section(data, ".nv_debug_ptx_txt")
    return None if not section else section.replace(b"\0", b"\n")  # its lines end with zero bytes


def read_line_numbers(data: bytes) -> tuple[bytes, dict[int, str]]:
    """Return the DWARF line numbers of a cubin, which ``-lineinfo`` makes; empty if there are none.

    Second: the offsets in them that hold addresses of functions, with the function's name.
    """
    found = _read_section(data, ".debug_line")
    entries = _read_section(data, ".rela.debug_line") or b""
    if not found:
        return b"", {}
    symbols = read_symbols(data, read_sections(data))
    places = {}
    for at in range(0, len(entries) - _RELOCATION.size + 1, _RELOCATION.size):
        offset, info, _ = _RELOCATION.unpack_from(entries, at)
        places[offset] = symbols[info >> 32].name if info >> 32 < len(symbols) else ""
    return found, places


def _read_section(data: bytes, name: str) -> bytes | None:
    try:
        sections = read_sections(data) if find_format(data) is FileFormat.CUBIN else []
    except (struct.error, IndexError, OverflowError, ValueError):
        return None  # the file may be malformed
    found = next((section for section in sections if section.name == name), None)
    return None if found is None else data[found.offset : found.offset + found.size]


def _read(data: bytes) -> CodeObjectFacts:
    if find_format(data) is not FileFormat.CUBIN:
        raise ArtifactError("not a cubin", hint="give the output of nvcc -cubin")
    sections = read_sections(data)
    by_name = {section.name: section for section in sections}
    symbols = read_symbols(data, sections)
    kernels = {symbol.name for symbol in symbols if symbol.kind == STT_FUNC and symbol.other & STO_ENTRY}
    whole = list(_read_attributes(data, by_name.get(".nv.info")))
    by_symbol: dict[tuple[int, str], int] = {}
    for attribute, value in whole:
        if len(value) == 8 and attribute in (_REGISTER_COUNT, _FRAME_SIZE):
            index, number = struct.unpack("<II", value)
            if index < len(symbols):
                by_symbol[attribute, symbols[index].name] = number
    target, major = _read_target(data, by_name.get(".nv.compat"))
    facts = {name: _read_kernel(data, name, by_name, by_symbol, symbols, major) for name in sorted(kernels)}
    return CodeObjectFacts(target, data[8], facts, CodeObjectFormat.CUBIN)


def _read_target(data: bytes, compatibility: Section | None) -> tuple[str, int]:
    """Return the target, such as ``sm_90a``, and its major version.

    ABI 8 has the number in the second byte of the flags. CUDA 12's ptxas marks code for one GPU only in the
    flags, CUDA 13's in a separate section.
    """
    (flags,) = struct.unpack_from("<I", data, 48)
    new = data[8] >= 8
    number = (flags >> 8 if new else flags) & 0xFF
    accelerated = flags & (_ACCELERATED_V8 if new else _ACCELERATED_V7) or any(
        attribute == _ACCELERATED and value[:1] == b"\1"
        for attribute, value in _read_attributes(data, compatibility)
    )
    return f"sm_{number}{'a' if accelerated else ''}", number // 10


def _read_attributes(data: bytes, section: Section | None) -> Iterator[tuple[int, bytes]]:
    if section is None:
        return
    at, end = section.offset, section.offset + section.size
    while at + 4 <= end:
        layout, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if layout == _FORMAT_SIZED:
            yield attribute, data[at : at + value]
            at += value
        else:
            yield attribute, struct.pack("<H", value)


def _read_kernel(
    data: bytes,
    name: str,
    sections: dict[str, Section],
    by_symbol: dict[tuple[int, str], int],
    symbols: list[Symbol],
    major: int,
) -> KernelFacts:
    parameters: list[tuple[int, int, int]] = []
    size_bytes = 0
    threads: int | None = None
    required: tuple[int, int, int] | None = None
    unsupported = []
    for attribute, value in _read_attributes(data, sections.get(f".nv.info.{name}")):
        if attribute == _PARAMETER:
            _, ordinal, offset, packed = struct.unpack("<IHHI", value)
            parameters.append((ordinal, offset, packed >> 18))
        elif attribute == _PARAMETER_BYTES:
            size_bytes = int.from_bytes(value, "little")
        elif attribute in (_MAX_THREADS, _REQUIRED_THREADS):
            x, y, z = struct.unpack("<III", value[:12])
            threads = x * y * z
            required = (x, y, z) if attribute == _REQUIRED_THREADS else required
        elif attribute == _EXTERNS:
            names = [
                symbols[index].name for (index,) in struct.iter_unpack("<I", value) if index < len(symbols)
            ]
            unsupported += [_explain_unsupported(external) for external in names]
        elif attribute in _TEXTURES_AND_SURFACES:  # references, which only old programs use
            unsupported.append("textures or surfaces")
    called = _find_called(data, name, sections, symbols)
    unsupported += [_explain_unsupported(function) for function in called]
    code = [sections[_TEXT + function] for function in (name, *called) if _TEXT + function in sections]
    # A kernel may get handles from anywhere, so only its instructions show that it uses them.
    if any(uses_textures(data[each.offset : each.offset + each.size]) for each in code):
        unsupported.append("textures or surfaces")
    shared = sections[f".nv.shared.{name}"].size if f".nv.shared.{name}" in sections else 0
    if major >= 9 and shared >= _RESERVED_SHARED_BYTES:
        shared -= _RESERVED_SHARED_BYTES
    return KernelFacts(
        symbol=name,
        slots=tuple(
            KernargSlot(offset_bytes=offset, size_bytes=size, value_kind="by_value")
            for _, offset, size in sorted(parameters)
        ),
        kernarg_size_bytes=max(size_bytes, max((offset + size for _, offset, size in parameters), default=0)),
        kernarg_align_bytes=None,
        static_lds_bytes=shared,
        scratch_bytes_per_work_item=by_symbol.get((_FRAME_SIZE, name), 0),
        uses_dynamic_stack=False,
        wavefront_size=32,
        registers=Registers(per_thread_count=by_symbol.get((_REGISTER_COUNT, name))),
        max_work_group_size=threads,
        required_work_group_size=required,
        preload_offset_dwords=0,
        preload_length_dwords=0,
        language=None,
        unsupported=tuple(dict.fromkeys(part for part in unsupported if part)),
    )


def _find_called(data: bytes, kernel: str, sections: dict[str, Section], symbols: list[Symbol]) -> set[str]:
    """Return all symbols that a kernel refers to, directly or through functions that it calls."""
    seen, waiting = {kernel}, [kernel]
    while waiting:
        table = sections.get(f".rela.text.{waiting.pop()}")
        entries = data[table.offset : table.offset + table.size] if table is not None else b""
        for at in range(0, len(entries) - _RELOCATION.size + 1, _RELOCATION.size):
            _, info, _ = _RELOCATION.unpack_from(entries, at)
            index = info >> 32
            name = symbols[index].name if index < len(symbols) else ""
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen - {kernel}


def _explain_unsupported(external: str) -> str:
    """Return what a kernel does if it calls this function of the driver; empty if a replay supports it."""
    if external.startswith(("cudaLaunchDevice", "__cudaCDP", "cudaGetParameterBuffer", "cudaGraphLaunch")):
        return "device-side launches"
    if external in ("malloc", "free"):
        return "the device's own heap (malloc in a kernel)"
    return ""
