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


def begin_output(path: Path) -> None:
    """Remove an earlier run's file, or the file that a link leads to. Raises OSError if none can be made.

    A device or a pipe stays, and so does a file that is standard output or error already.
    """
    target = path.resolve()
    if _find_stream(path) is None and (target.is_file() or not target.exists()):
        target.unlink(missing_ok=True)
        target.touch()
        target.unlink()


def write_output(path: Path, content: bytes) -> None:
    """Write a file. Raises OSError; what was written of the file until then is removed."""
    rest = memoryview(content)
    try:
        with open_output(path) as file:
            while rest:
                rest = rest[file.write(rest) :]
    except OSError:
        with suppress(OSError):
            begin_output(path)
        raise


def _find_stream(path: Path) -> int | None:
    for stream in (1, 2):
        with suppress(OSError):
            if os.path.samestat(path.stat(), os.fstat(stream)):
                return stream
    return None
