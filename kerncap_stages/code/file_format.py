"""Finds the format of a file of code by its first bytes; all readers of formats use this."""

from __future__ import annotations

import re
import struct
from enum import Enum, auto

_EM_CUDA = (190).to_bytes(2, "little")
_EM_AMDGPU = (224).to_bytes(2, "little")
BUNDLE_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED_BUNDLE_MAGIC = b"CCOB"
FATBIN_HEADER = struct.Struct("<IHHQ")
_FATBIN_MAGIC = 0xBA55ED50
_ELF_MAGIC = b"\x7fELF"
_MACHINE_AT = 18  # u16 in an ELF header
_PTX_HEAD_BYTES = 1 << 16
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)


class FileFormat(Enum):
    """A format of code for GPUs, or of files that hold code in several formats."""

    ELF = auto()  # for AMD GPUs, or not for a GPU: its reader checks that
    CUBIN = auto()
    PTX = auto()
    FATBIN = auto()
    BUNDLE = auto()
    COMPRESSED_BUNDLE = auto()
    UNKNOWN = auto()


def find_format(data: bytes) -> FileFormat:
    """Find the format of a file, which may still be damaged."""
    if data.startswith(_ELF_MAGIC):
        is_cubin = data[_MACHINE_AT : _MACHINE_AT + 2] == _EM_CUDA
        return FileFormat.CUBIN if is_cubin else FileFormat.ELF
    if data.startswith(_COMPRESSED_BUNDLE_MAGIC):
        return FileFormat.COMPRESSED_BUNDLE
    if data.startswith(BUNDLE_MAGIC):
        return FileFormat.BUNDLE
    if len(data) >= FATBIN_HEADER.size and FATBIN_HEADER.unpack_from(data)[0] == _FATBIN_MAGIC:
        return FileFormat.FATBIN
    # PTX is text that begins, after comments, with ``.version``.
    if strip_comments(data[:_PTX_HEAD_BYTES]).lstrip().startswith(".version"):
        return FileFormat.PTX
    return FileFormat.UNKNOWN


def is_for_amd(elf: bytes) -> bool:
    """Whether an ELF file, of which this is the beginning, has code for AMD GPUs."""
    return elf[_MACHINE_AT : _MACHINE_AT + 2] == _EM_AMDGPU


def strip_comments(data: bytes) -> str:
    """Return the text of PTX without its comments."""
    return _COMMENT.sub("", data.decode(errors="replace"))
