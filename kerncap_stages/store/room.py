"""Whether there is room on a disk for what is to be written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kerncap_stages.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def require_room(place: Path | int, contents: Iterable[tuple[str, int]]) -> None:
    """Before anything is written: (name, bytes that no hole can stand for) of all that ``place`` has to take.

    place: a folder, or the descriptor of a file. Raises Refused if its file system has not so much room.
    """
    file_system = os.statvfs(place)
    if file_system.f_blocks == 0:
        return  # one that does not tell
    room = file_system.f_bfree * file_system.f_frsize
    needed = 0
    for name, size_bytes in contents:
        needed += size_bytes
        if needed > room:
            where = "standard output" if isinstance(place, int) else place
            raise Refused(
                f"{where} has room for {room:,} bytes, and {name} brings what is to be written to {needed:,}",
                hint="free some, or give a place on another file system",
            )
