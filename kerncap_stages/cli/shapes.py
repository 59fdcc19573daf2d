"""Reads options that give the shape of a launch."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from kerncap_stages.errors import UsageError
from kerncap_stages.replay.variant_shape import MAX_BLOCK_WORK_ITEMS, MAX_WORK_ITEMS, VariantShape

if TYPE_CHECKING:
    from kerncap_stages.manifests.base import Dim3


def read_shape(flag: str, text: str | None) -> Dim3 | None:
    """Read ``X[,Y[,Z]]`` of an option. Raises UsageError for anything else, and for numbers too large."""
    if text is None:
        return None
    parts = [*text.split(","), "1", "1"][: max(3, text.count(",") + 1)]
    if len(parts) != 3 or not all(re.fullmatch("0*[1-9][0-9]{0,9}", part) for part in parts):
        raise UsageError(f"{flag} needs one to three numbers above 0, not {text!r}", hint=f"{flag} 1024,1,1")
    x, y, z = (int(part) for part in parts)
    if max(x, y, z) > MAX_WORK_ITEMS:
        raise UsageError(
            f"{flag} {text}: at most {MAX_WORK_ITEMS} in each dimension", hint="give a smaller shape"
        )
    return (x, y, z)


def read_block(text: str | None) -> Dim3 | None:
    """Read ``--block``. Raises UsageError like ``read_shape``, and for more than a work-group holds."""
    block = read_shape("--block", text)
    if block is not None and math.prod(block) > MAX_BLOCK_WORK_ITEMS:
        raise UsageError(
            f"--block {text}: {math.prod(block)} work-items; the maximum is {MAX_BLOCK_WORK_ITEMS}",
            hint="give a smaller shape",
        )
    return block


def read_variant_shape(
    grid_blocks: str | None, block: str | None, lds_bytes: int | None
) -> VariantShape | None:
    """Read how a variant is launched; None if no option says so. Raises UsageError like ``read_shape``."""
    shape = VariantShape(read_shape("--grid-blocks", grid_blocks), read_block(block), lds_bytes)
    return None if shape == VariantShape() else shape
