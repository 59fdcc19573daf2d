"""Reads files that a user named, which may be anything that a path may name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def read_regular_file(path: Path, most_bytes: int) -> bytes:
    """Read a file. A pipe would hold us, and a device would never end.

    Raises OSError if it cannot be read, ValueError if it is not a regular file, or is too large.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if not path.is_file():
            raise ValueError("it is not a regular file")
        if status.st_size > most_bytes:
            raise ValueError(f"it has {status.st_size} bytes, and at most {most_bytes} are read")
        return file.read()
