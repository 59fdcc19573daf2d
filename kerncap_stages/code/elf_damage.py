"""What reading an ELF file raises where it is damaged, as one error: pyelftools trusts what it reads."""

from __future__ import annotations

import struct
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

from elftools.common.exceptions import DWARFError, ELFError

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


@contextmanager
def reading_elf(hint: str) -> Iterator[None]:
    """For a block, or a function, that reads a code object: damage is an ArtifactError, with the hint."""
    try:
        yield
    except (ELFError, DWARFError, *_RAISED) as error:
        raise ArtifactError(f"damaged code object: {error}", hint=hint) from error
