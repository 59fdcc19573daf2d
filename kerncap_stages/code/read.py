"""Which format a code object has, and what it holds, whatever its format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.code.code_object import read_amd
from kerncap_stages.code.cubin import is_cubin, read_cubin
from kerncap_stages.code.ptx import is_ptx, read_ptx

if TYPE_CHECKING:
    from kerncap_stages.code.kernel_facts import CodeObjectFacts


def read_code_object(data: bytes) -> CodeObjectFacts:
    """Parse a code object.

    Raises ArtifactError when it is not one, or has no metadata that we understand.
    """
    if is_cubin(data):
        return read_cubin(data)
    if is_ptx(data):
        return read_ptx(data)
    return read_amd(data)
