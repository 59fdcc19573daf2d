"""Reads fatbins: files with cubins and PTX for several architectures, as `nvcc -fatbin` writes them.

    fatbin = magic:u32 (0xBA55ED50) version:u16 header:u16 size:u64 entry*
    entry  = kind:u16 version:u16 header:u32 size:u64 packed:u32 at:u32 minor:u16 major:u16 architecture:u32
             name_at:u32 name_size:u32 flags:u64 reserved:u64 unpacked:u64 ... payload

All numbers are little-endian; `header` is the size of the header. Kind 1 is PTX, 2 a cubin. The payload is
compressed with Zstandard if the flags contain 0x8000. NVIDIA does not document the format: nvcc 13.0 writes
this.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import zstandard

from kerncap_stages.code.architectures import runs_on
from kerncap_stages.code.cubin import read_cubin
from kerncap_stages.code.file_format import FATBIN_HEADER, FileFormat, find_format
from kerncap_stages.code.ptx import find_entry_lines, read_ptx
from kerncap_stages.errors import ArtifactError, KerncapError, Refused

if TYPE_CHECKING:
    from collections.abc import Iterable

_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_PTX, _CUBIN = 1, 2
_PACKED_ZSTD, _PACKED_LZ4 = 0x8000, 0x2000
_MAX_BYTES = 1 << 32


@dataclass(frozen=True)
class _Entry:
    kind: int
    number: int  # of the architecture: 90
    flags: int
    unpacked_bytes: int
    payload: bytes


def extract_from_fatbin(data: bytes, isa: str) -> bytes:
    """Return the code in a fatbin that runs on a GPU (``sm_90``): the newest cubin, or PTX if there is none.

    Raises Refused if no code in it runs there, ArtifactError if it is damaged.
    """
    entries = _read_entries(data)
    held = []
    for kind in (_CUBIN, _PTX):
        fitting = []
        for entry in (entry for entry in entries if entry.kind == kind):
            code = _unpack(entry)
            target = _find_target(code, entry)
            held.append(target if kind == _CUBIN else f"PTX for {target}")
            if runs_on(target, isa, is_ptx=kind == _PTX):
                fitting.append((entry.number, target, code))
        if fitting:
            return max(fitting)[2]
    raise Refused(
        f"the fatbin has no code that runs on {isa}; it holds {', '.join(held) or 'no code'}",
        hint=f"compile it with -arch={isa}",
    )


def _read_entries(data: bytes) -> list[_Entry]:
    _, _, header, size = FATBIN_HEADER.unpack_from(data)
    at, end = header, header + size
    if end > len(data):
        raise ArtifactError("damaged fatbin: it is shorter than its header says", hint="compile it again")
    found = []
    while at + _ENTRY.size <= end:
        kind, _, head, size, packed, _, _, _, number, _, _, flags, _, unpacked = _ENTRY.unpack_from(data, at)
        if head < _ENTRY.size or at + head + size > end:
            raise ArtifactError("damaged fatbin: an entry ends outside the file", hint="compile it again")
        payload = data[at + head : at + head + (packed or size)]
        found.append(_Entry(kind, number, flags, unpacked, payload))
        at += head + size
    return found


def _unpack(entry: _Entry) -> bytes:
    if entry.flags & _PACKED_LZ4:
        raise ArtifactError(
            "the fatbin is compressed with LZ4, which is not supported",
            hint="compile it with -Xfatbinary=--compress=false",
        )
    if not entry.flags & _PACKED_ZSTD:
        return entry.payload

    if entry.unpacked_bytes > _MAX_BYTES:
        raise ArtifactError(f"damaged fatbin: an entry claims to have {entry.unpacked_bytes} bytes")
    try:
        with zstandard.ZstdDecompressor().stream_reader(entry.payload) as reader:
            return reader.read(entry.unpacked_bytes)
    except zstandard.ZstdError as error:
        raise ArtifactError(f"damaged fatbin: {error}", hint="compile it again") from error


def _find_target(code: bytes, entry: _Entry) -> str:
    try:
        return (read_ptx if find_format(code) is FileFormat.PTX else read_cubin)(code).isa
    except ArtifactError:
        return f"sm_{entry.number}"


def find_ptx(images: Iterable[bytes], isa: str, symbol: str) -> list[bytes]:
    """Return the PTX that has a kernel from images that are PTX, or fatbins with PTX for ``isa``."""
    texts = [
        _extract_ptx(image, isa) if find_format(image) is FileFormat.FATBIN else image for image in images
    ]
    return [text for text in texts if symbol in find_entry_lines(text)]


def _extract_ptx(fatbin: bytes, isa: str) -> bytes:
    try:
        return extract_from_fatbin(fatbin, isa).rstrip(b"\0")  # PTX in a fatbin ends with zero bytes
    except KerncapError:
        return b""  # for example unknown compression, which is no reason for the capture to fail
