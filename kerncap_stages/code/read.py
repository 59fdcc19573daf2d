"""Reads a code object of any format."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from kerncap_stages.code.code_object import read_amd
from kerncap_stages.code.cubin import read_cubin
from kerncap_stages.code.file_format import FileFormat, find_format
from kerncap_stages.code.ptx import read_ptx

if TYPE_CHECKING:
    from kerncap_stages.code.kernel_facts import CodeObjectFacts


@lru_cache(maxsize=1)  # a variant is looked at from several sides, one after the other
def read_code_object(data: bytes) -> CodeObjectFacts:
    """Parse a code object.

    Raises ArtifactError if it is not one, is damaged or has no metadata.
    """
    match find_format(data):
        case FileFormat.CUBIN:
            return read_cubin(data)
        case FileFormat.PTX:
            return read_ptx(data)
        case _:  # for other files, too: this raises an error that names AMD's metadata
            return read_amd(data)
