"""What a code object holds, whatever its format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.code.code_object import read_amd
from kerncap_stages.code.cubin import read_cubin
from kerncap_stages.code.file_format import FileFormat, format_of
from kerncap_stages.code.ptx import read_ptx

if TYPE_CHECKING:
    from kerncap_stages.code.kernel_facts import CodeObjectFacts


def read_code_object(data: bytes) -> CodeObjectFacts:
    """Parse a code object.

    Raises ArtifactError when it is not one, or has no metadata that we understand.
    """
    match format_of(data):
        case FileFormat.CUBIN:
            return read_cubin(data)
        case FileFormat.PTX:
            return read_ptx(data)
        case _:  # also what is no code object: the message names AMD's metadata
            return read_amd(data)
