"""The store that a worker works in: a copy of the capture, in memory if it is small, removed with the worker.

What replays of variants leave, and what is made of it on the way to a verdict, is needed by nobody
afterwards. In the user's store it would have to reach the disk, and stay there until a collection.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.machine.temporary import TemporaryFolder
from kerncap_stages.store import Store
from kerncap_stages.store.copying import copy_closure, copy_unlisted
from kerncap_stages.store.objects import sum_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kerncap_stages.digest import Digest

_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - TemporaryFolder makes a folder of our own there
MAX_BYTES_IN_MEMORY = 64 << 20  # a capture's, on disk, for each worker
MAX_BYTES_COPIED = 1 << 30
MAX_GROWTH_BYTES = 64 << 20  # in memory
MAX_GROWTH_BYTES_ON_DISK = 1 << 30


@dataclass(frozen=True)
class Scratch:
    """A store for one worker. ``folder``: removed at the end; None: it is the user's store."""

    store: Store
    folder: TemporaryFolder | None
    max_growth_bytes: int
    in_memory: bool = False

    @property
    def is_users(self) -> bool:
        """Whether it is the user's own store."""
        return self.folder is None

    def publish(
        self, made: Mapping[Digest, Sequence[Digest]], store: Store, choose_time_ns: Callable[[int], int]
    ) -> None:
        """Copy verdicts to the user's store, and list them; workers list those in the user's own."""
        if not self.is_users:
            copy_unlisted(self.store, list(made.items()), "validation", store, choose_time_ns(len(made)))

    def remove(self) -> None:
        """Remove the copy."""
        if self.folder is not None:
            self.folder.remove()


class ScratchMaker:
    """Makes stores that hold what a verdict is made from."""

    def __init__(self, store: Store, roots: Sequence[Digest]) -> None:
        """``roots``: the artifacts that verdicts are made from."""
        self._store = store
        self._roots = roots
        self._size_bytes = sum_sizes(store.root, set(store.walk(roots).kinds))

    def make(self) -> Scratch:
        """Make a store for a worker; for a large capture it is the user's."""
        if self._size_bytes > MAX_BYTES_COPIED:
            return Scratch(self._store, None, 0)
        in_memory = self._size_bytes <= MAX_BYTES_IN_MEMORY and _has_room(
            _IN_MEMORY, self._size_bytes + 2 * MAX_GROWTH_BYTES
        )
        folder = TemporaryFolder("evaluate", _IN_MEMORY if in_memory else None)
        try:
            store = Store.open(folder.path / "store")
            copy_closure(self._store, self._roots, store)
        except BaseException:
            folder.remove()
            raise
        growth_bytes = MAX_GROWTH_BYTES if in_memory else MAX_GROWTH_BYTES_ON_DISK
        return Scratch(store, folder, growth_bytes, in_memory)


def _has_room(place: Path, size_bytes: int) -> bool:
    try:
        system = os.statvfs(place)
    except OSError:
        return False
    return os.access(place, os.W_OK) and system.f_bavail * system.f_frsize > size_bytes
