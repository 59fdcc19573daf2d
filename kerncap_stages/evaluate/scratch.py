"""What a worker works in: a copy of the capture in a store, and a folder for its replays' files.

What replays of variants leave, and what is made of it on the way to a verdict, is needed by nobody
afterwards. In the user's store it would have to reach the disk, and stay there until a collection. So both
are removed with the worker, and are in memory if they are small: a verdict makes and removes dozens of files.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.errors import DeviceError, StoreError
from kerncap_stages.machine.temporary import TemporaryFolder, remove_stale
from kerncap_stages.store import Store
from kerncap_stages.store.copying import copy_closure, copy_unlisted
from kerncap_stages.store.objects import sum_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.capture import Capture

_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - TemporaryFolder makes a folder of our own there
MAX_BYTES_IN_MEMORY = 64 << 20  # a capture's, on disk, for each worker
MAX_BYTES_COPIED = 1 << 30
MAX_GROWTH_BYTES = 64 << 20  # in memory
MAX_GROWTH_BYTES_ON_DISK = 1 << 30
# Of the captured memory for whose replays the files are in memory, and how many times that they may take:
# outputs of two processes, each from several states and with some repeats that differed.
_MAX_STATE_BYTES_IN_MEMORY, _MAX_OUTPUTS = 32 << 20, 16


@dataclass(frozen=True)
class Scratch:
    """A store for one worker. ``folder``: removed at the end; None: it is the user's store.

    temporary: a folder in memory, in ``folder``, for files of replays; None: they are too large.
    """

    store: Store
    folder: TemporaryFolder | None
    max_growth_bytes: int
    in_memory: bool = False
    temporary: Path | None = None

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

    def __init__(self, store: Store, roots: Sequence[Digest], captures: Iterable[Capture]) -> None:
        """``roots``: the artifacts that verdicts are made from, ``captures`` among them."""
        remove_stale(_IN_MEMORY)  # also if nothing of ours will be there: they may be what fills it
        self._store = store
        self._roots = roots
        self._state_bytes = max(each.size_bytes for each in captures)
        self._size_bytes = sum_sizes(store.root, set(store.walk(roots).kinds))

    def make(self) -> Scratch:
        """Make a store for a worker; for a large capture it is the user's.

        Raises DeviceError if the temporary folder has no room.
        """
        if self._size_bytes > MAX_BYTES_COPIED:
            return Scratch(self._store, None, 0)
        if self._size_bytes <= MAX_BYTES_IN_MEMORY and _has_room(
            _IN_MEMORY, self._size_bytes + 2 * MAX_GROWTH_BYTES
        ):
            with contextlib.suppress(OSError, StoreError):  # others may have filled it since
                return self._make(in_memory=True)
        try:
            return self._make(in_memory=False)
        except StoreError as error:
            raise DeviceError(
                f"a worker's copy of the capture: {error}",
                hint="free space there, or set TMPDIR to another folder, then run it again",
            ) from error

    def _make(self, *, in_memory: bool) -> Scratch:
        folder = TemporaryFolder("evaluate", _IN_MEMORY if in_memory else None)
        try:
            store = Store.open(folder.path / "store")
            copy_closure(self._store, self._roots, store)
            temporary = self._make_temporary(folder.path) if in_memory else None
        except BaseException:
            folder.remove()
            raise
        growth_bytes = MAX_GROWTH_BYTES if in_memory else MAX_GROWTH_BYTES_ON_DISK
        return Scratch(store, folder, growth_bytes, in_memory, temporary)

    def _make_temporary(self, folder: Path) -> Path | None:
        room_bytes = 2 * MAX_GROWTH_BYTES + _MAX_OUTPUTS * self._state_bytes
        if self._state_bytes > _MAX_STATE_BYTES_IN_MEMORY or not _has_room(folder, room_bytes):
            return None
        (folder / "temporary").mkdir()
        return folder / "temporary"


def is_short_of_room(place: Path) -> bool:
    """Whether another worker's files should not be beside ``place``, in memory: others have filled it."""
    return not _has_room(place, MAX_GROWTH_BYTES)


def _has_room(place: Path, size_bytes: int) -> bool:
    try:
        system = os.statvfs(place)
    except OSError:
        return False
    return os.access(place, os.W_OK) and system.f_bavail * system.f_frsize > size_bytes
