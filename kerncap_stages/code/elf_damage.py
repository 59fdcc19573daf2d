"""Converts all errors from reading a damaged ELF file to one: pyelftools does not check what it reads."""

from __future__ import annotations

import struct
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kerncap_stages.code.elf import DWARFError, ELFError
from kerncap_stages.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Iterator

_RAISED = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    AssertionError,
    struct.error,
    zlib.error,
)
_UNFIT = "its headers and its contents do not match"


@contextmanager
def convert_elf_errors(hint: str) -> Iterator[None]:
    """Raise ArtifactError, with the hint, if reading a code object in a block or a function fails."""
    try:
        yield
    except (ELFError, DWARFError) as error:
        raise ArtifactError(f"damaged code object: {error}", hint=hint) from error
    except _RAISED as error:  # their texts are for the author of a program: `list index out of range`
        raise ArtifactError(f"damaged code object: {_UNFIT}", hint=hint) from error
