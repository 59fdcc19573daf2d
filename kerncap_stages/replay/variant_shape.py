"""How a variant is launched where that is not as captured: from a file beside it, or from options.

This module imports no models, so that a verdict that is already known is returned fast.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from kerncap_stages.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.manifests.base import Dim3
    from kerncap_stages.manifests.kernel import Launch

SUFFIX = ".shape.json"  # candidate.hsaco has candidate.shape.json beside it
MAX_WORK_ITEMS = 2**32 - 1  # of a grid along one axis: the field of an AQL packet has 32 bits
MAX_BLOCK_WORK_ITEMS = 1024  # on AMD's and NVIDIA's GPUs
_MAX_LDS_BYTES = 2**31 - 1  # the replayer adds the kernel's own
_MAX_FILE_BYTES = 4096


@dataclass(frozen=True)
class VariantShape:
    """The grid in blocks, the work-items of a block, and its dynamic LDS. None: as captured."""

    grid_blocks: Dim3 | None = None
    block_work_items: Dim3 | None = None
    dynamic_lds_bytes: int | None = None

    def resolve(self, launch: Launch) -> tuple[Dim3, Dim3, int]:
        """Return the grid and the block, both in work-items, and the bytes of dynamic LDS.

        Raises UsageError if the grid has more work-items along an axis than fit.
        """
        block = self.block_work_items or launch.block_work_items
        grid = launch.grid_work_items
        if self.grid_blocks is not None:
            grid = count_work_items(self.grid_blocks, block)
        elif block != launch.block_work_items:
            grid = count_work_items(launch.grid_blocks, block)
        lds_bytes = launch.dynamic_lds_bytes if self.dynamic_lds_bytes is None else self.dynamic_lds_bytes
        return grid, block, lds_bytes


def count_work_items(grid_blocks: Dim3, block_work_items: Dim3) -> Dim3:
    """Return the work-items of a grid. Raises UsageError if there are more along an axis than fit."""
    x, y, z = (blocks * size for blocks, size in zip(grid_blocks, block_work_items, strict=True))
    if max(x, y, z) > MAX_WORK_ITEMS:
        raise UsageError(
            f"a grid of {x},{y},{z} work-items: an axis has at most {MAX_WORK_ITEMS}",
            hint="give fewer blocks",
        )
    return (x, y, z)


def find_variant_shape(variant: Path) -> VariantShape | None:
    """Read the file beside a variant; None if there is none.

    Raises UsageError if it holds something else.
    """
    if not variant.name:  # `.` and `/` are folders, beside which nothing is
        return None
    path = variant.with_suffix(SUFFIX)
    try:
        return read_shape(json.loads(_read_bytes(path)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            return None  # no file can have this name
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"{path} does not say how to launch {variant.name}: {why}",
            hint='for example {"grid_blocks": [64, 1, 1], "block_work_items": [128, 1, 1], '
            '"dynamic_lds_bytes": 0}; without the file the launch is as captured',
        ) from error


def _read_bytes(path: Path) -> bytes:
    """Read the file. A project comes from anybody: a pipe would hold us, a device would never end."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        data = file.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise ValueError(f"it has more than {_MAX_FILE_BYTES} bytes")
    return data


def read_shape(read: Any) -> VariantShape:
    """Read what the file holds, from JSON. Raises ValueError if it is something else."""
    names = [field.name for field in fields(VariantShape)]
    if not isinstance(read, dict) or not set(read) <= set(names):
        raise ValueError(f"expected an object with {', '.join(names)}")
    lds_bytes = read.get("dynamic_lds_bytes")
    if lds_bytes is not None and not (_is_number(lds_bytes) and 0 <= lds_bytes <= _MAX_LDS_BYTES):
        raise ValueError(f"dynamic_lds_bytes is {lds_bytes!r}")
    block = _read_shape(read, "block_work_items")
    if block is not None and block[0] * block[1] * block[2] > MAX_BLOCK_WORK_ITEMS:
        raise ValueError(f"block_work_items: a block has at most {MAX_BLOCK_WORK_ITEMS} work-items")
    return VariantShape(_read_shape(read, "grid_blocks"), block, lds_bytes)


def _read_shape(read: dict[str, Any], name: str) -> Dim3 | None:
    shape = read.get(name)
    if shape is None:
        return None
    is_shape = isinstance(shape, list) and len(shape) == 3
    if not is_shape or not all(_is_number(part) and 0 < part <= MAX_WORK_ITEMS for part in shape):
        raise ValueError(f"{name} is not a list of three numbers above 0")
    x, y, z = shape
    return (x, y, z)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
