"""Fatbins: cubins and PTX of several architectures in one file, as `nvcc -fatbin` writes them.

    fatbin = magic:u32 (0xBA55ED50) version:u16 header:u16 size:u64 entry*
    entry  = kind:u16 version:u16 header:u32 size:u64 packed:u32 at:u32 minor:u16 major:u16 architecture:u32
             name_at:u32 name_size:u32 flags:u64 reserved:u64 unpacked:u64 ... payload

All numbers are little-endian; `header` says where what follows begins. Kind 1 is PTX, 2 a cubin; the payload
is packed by Zstandard where the flags have 0x8000. NVIDIA has no document of it: nvcc 13.0 writes this.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import zstandard

from kerncap_stages.code.architectures import runs_on
from kerncap_stages.code.cubin import read_cubin
from kerncap_stages.code.file_format import FATBIN_HEADER, FileFormat, format_of
from kerncap_stages.code.ptx import entry_lines, read_ptx
from kerncap_stages.errors import ArtifactError, KerncapError, Refused

if TYPE_CHECKING:
    from collections.abc import Iterable

_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_PTX, _CUBIN = 1, 2
_PACKED_ZSTD, _PACKED_LZ4 = 0x8000, 0x2000
_MOST_BYTES = 1 << 32


@dataclass(frozen=True)
class _Entry:
    kind: int
    number: int  # of the architecture: 90
    flags: int
    unpacked_bytes: int
    payload: bytes


def code_for(data: bytes, isa: str) -> bytes:
    """Take what runs on a GPU (``sm_90``) out of a fatbin: a cubin, else PTX, the newest that fits.

    Raises Refused where nothing in it does, ArtifactError for damage.
    """
    entries = _entries(data)
    held = []
    for kind in (_CUBIN, _PTX):
        fitting = []
        for entry in (entry for entry in entries if entry.kind == kind):
            code = _unpacked(entry)
            target = _target(code, entry)
            held.append(target if kind == _CUBIN else f"PTX for {target}")
            if runs_on(target, isa, is_ptx=kind == _PTX):
                fitting.append((entry.number, target, code))
        if fitting:
            return max(fitting)[2]
    raise Refused(
        f"the fatbin has nothing that runs on {isa}; it holds {', '.join(held) or 'no code'}",
        hint=f"compile it with -arch={isa}",
    )


def _entries(data: bytes) -> list[_Entry]:
    _, _, header, size = FATBIN_HEADER.unpack_from(data)
    at, end = header, header + size
    if end > len(data):
        raise ArtifactError("damaged fatbin: it is not as long as it says", hint="compile it again")
    found = []
    while at + _ENTRY.size <= end:
        kind, _, head, size, packed, _, _, _, number, _, _, flags, _, unpacked = _ENTRY.unpack_from(data, at)
        if head < _ENTRY.size or at + head + size > end:
            raise ArtifactError("damaged fatbin: an entry lies beyond its end", hint="compile it again")
        payload = data[at + head : at + head + (packed or size)]
        found.append(_Entry(kind, number, flags, unpacked, payload))
        at += head + size
    return found


def _unpacked(entry: _Entry) -> bytes:
    if entry.flags & _PACKED_LZ4:
        raise ArtifactError(
            "the fatbin is packed by an old method", hint="compile it with -Xfatbinary=--compress=false"
        )
    if not entry.flags & _PACKED_ZSTD:
        return entry.payload

    if entry.unpacked_bytes > _MOST_BYTES:
        raise ArtifactError(f"damaged fatbin: an entry would have {entry.unpacked_bytes} bytes")
    try:
        with zstandard.ZstdDecompressor().stream_reader(entry.payload) as reader:
            return reader.read(entry.unpacked_bytes)
    except zstandard.ZstdError as error:
        raise ArtifactError(f"damaged fatbin: {error}", hint="compile it again") from error


def _target(code: bytes, entry: _Entry) -> str:
    try:
        return (read_ptx if format_of(code) is FileFormat.PTX else read_cubin)(code).isa
    except ArtifactError:
        return f"sm_{entry.number}"


def ptx_in_images(images: Iterable[bytes], isa: str, symbol: str) -> list[bytes]:
    """Texts that have a kernel, of PTX and of fatbins out of which the driver compiled PTX for ``isa``."""
    texts = [_taken_out(image, isa) if format_of(image) is FileFormat.FATBIN else image for image in images]
    return [text for text in texts if symbol in entry_lines(text)]


def _taken_out(fatbin: bytes, isa: str) -> bytes:
    try:
        return code_for(fatbin, isa).rstrip(b"\0")  # with which it ends there
    except KerncapError:
        return b""  # packed by a method that we do not know: it is no reason to give the capture up
