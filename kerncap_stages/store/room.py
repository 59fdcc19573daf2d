"""Checks that a file system has enough free space."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kerncap_stages.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def require_room(place: Path | int, contents: Iterable[tuple[str, int]]) -> None:
    """Raise Refused if a file system has too little free space for the contents. Call it before writing.

    place: a folder, or the descriptor of a file. contents: (name, bytes to be written, without holes).
    """
    file_system = os.statvfs(place)
    if file_system.f_blocks == 0:
        return  # this file system does not report its size
    room = file_system.f_bfree * file_system.f_frsize
    needed = 0
    for name, size_bytes in contents:
        needed += size_bytes
        if needed > room:
            where = "standard output" if isinstance(place, int) else place
            raise Refused(
                f"{where} has {room:,} bytes free, "
                f"but {needed:,} bytes are needed up to and including {name}",
                hint="free some space, or give a place on another file system",
            )
