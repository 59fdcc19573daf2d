"""Recognises files that hold no code object, but that users take for one: programs, object files, text."""

from __future__ import annotations

import codecs
import mmap
import struct
from typing import TYPE_CHECKING

from kerncap_stages.code.file_format import FileFormat, find_format, is_for_amd

if TYPE_CHECKING:
    from pathlib import Path

_HEAD_BYTES = 1 << 16
_UTF8 = codecs.getincrementaldecoder("utf-8")
_TYPE = struct.Struct("<16xH2x")  # of an ELF file; the machine follows
_ET_REL = 1
# Sections in which compilers put code for GPUs into programs.
_DEVICE_CODE = (b".hip_fatbin", b".nv_fatbin")


def describe_host_file(path: Path) -> str | None:
    """Describe a file that is no code for a GPU: `an object file for the CPU`; None for any other file.

    Raises OSError if the file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        match find_format(head):
            case FileFormat.ELF if len(head) >= _TYPE.size and not is_for_amd(head):
                (elf_type,) = _TYPE.unpack_from(head)
                what = "an object file" if elf_type == _ET_REL else "a program or library"
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    has_code = any(data.find(section) >= 0 for section in _DEVICE_CODE)
                return f"{what} for the CPU{', which holds code for GPUs' if has_code else ''}"
            case FileFormat.UNKNOWN if head and _is_text(head):
                return "a text file"
    return None


def _is_text(head: bytes) -> bool:
    try:
        _UTF8().decode(head)  # the end may cut a character
    except UnicodeDecodeError:
        return False
    return b"\0" not in head
