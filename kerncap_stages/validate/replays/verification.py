"""Which states a replay has to hash while it restores them."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set

    from kerncap_stages.digest import MemoryRef


class Verification:
    """Deals out the states to verify to replays, which may run at the same time."""

    def __init__(self, *, once: bool) -> None:
        """``once``: each state is hashed by the first replay that restores it, else by each."""
        self._once = once
        self._verified: set[MemoryRef] = set()  # or a running replay does it
        self._lock = Lock()

    def take(self, states: Set[MemoryRef]) -> Set[MemoryRef]:
        """Return those of these states that the caller's replay has to hash."""
        with self._lock:
            taken = states - self._verified
            if self._once:
                self._verified |= taken
        return taken

    def give_back(self, taken: Set[MemoryRef]) -> None:
        """Have another replay hash these states: the one that took them did not complete."""
        with self._lock:
            self._verified -= taken
