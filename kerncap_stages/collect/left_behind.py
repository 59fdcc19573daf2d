"""Finds the processes that a program left running when it ended, such as a daemon.

They have other parents by then, and a daemon has closed its files and left its process group. What stays is
the environment with which each was started: it names the collector's socket.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.text.formats import list_first

if TYPE_CHECKING:
    from collections.abc import Sequence

SOCKET = "KERNCAP_SOCKET"
IN_FOREGROUND = (
    "run it in the foreground, so that it is watched until it ends: many daemons have an option for that"
)
_MAX_NAMED = 3


@dataclass(frozen=True)
class LeftBehind:
    """A process that outlives its program."""

    process_id: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} (process {self.process_id})"


def find_left_behind(socket: Path) -> list[LeftBehind]:
    """Return the processes whose environment names this socket. A process may hide its environment."""
    wanted = os.fsencode(f"{SOCKET}={socket}")
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # An ended process that waits for its parent has an empty environment.
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                name = (folder / "comm").read_text(errors="backslashreplace").rstrip("\n")
                found.append(LeftBehind(int(folder.name), name))
        except OSError:  # it has ended, or it is another user's
            continue
    return sorted(found, key=lambda process: process.process_id)


def name_left_behind(processes: Sequence[LeftBehind]) -> str:
    """Name the processes in a sentence."""
    return list_first([str(each) for each in processes], _MAX_NAMED)
