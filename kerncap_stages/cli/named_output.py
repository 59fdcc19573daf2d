"""Files that the user names for a command's results. One may be a device, a pipe or an open stream."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path


def open_output(path: Path) -> FileIO:
    """Open a file for writing. One that is standard output or error already is not truncated under it."""
    stream = _find_stream(path)
    if stream is not None:
        return os.fdopen(os.dup(stream), "wb", buffering=0)  # the copy shares the place that is written next
    return path.open("wb", buffering=0)


def remove_earlier(path: Path) -> None:
    """Remove an earlier run's file, or the file that a link leads to.

    A device or a pipe stays, and so does a file that is standard output or error already.
    """
    target = path.resolve()
    if target.is_file() and _find_stream(path) is None:
        target.unlink()


def _find_stream(path: Path) -> int | None:
    for stream in (1, 2):
        with suppress(OSError):
            if os.path.samestat(path.stat(), os.fstat(stream)):
                return stream
    return None
