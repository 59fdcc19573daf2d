"""The captures of an evaluation on a node, once for all of its workers: the first that comes fetches them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from kerncap_stages.errors import DeviceError
from kerncap_stages.machine.temporary import PREFIX, remove_stale
from kerncap_stages.store import Store
from kerncap_stages.store.archive import import_archive

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class NodeFolder:
    """A folder that workers on one node share. The last of them that leaves removes it.

    Each holds a shared lock on it: so it is stale, and may be removed by others, when all were killed.
    """

    def __init__(self, key: str) -> None:
        """``key``: a secret of the evaluation. Raises DeviceError if somebody else has such a folder."""
        place = Path(tempfile.gettempdir())
        remove_stale(place)
        self._path = place / f"{PREFIX}node-{os.geteuid()}-{key}"
        self._fd = -1
        while self._fd < 0:  # before it is locked, another process may remove it as stale
            with contextlib.suppress(FileExistsError):
                self._path.mkdir(mode=0o700)
            with contextlib.suppress(FileNotFoundError):
                self._fd = self._lock()
        self._filling: int | None = None

    @property
    def store(self) -> Path:
        """The store with the captures."""
        return self._path / "store"

    def prepare(self) -> bool:
        """Return whether the captures are here. If not, add them: others wait until this process has."""
        if self._whole.exists():
            return True
        filling = os.open(self._path / "filling", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(filling, fcntl.LOCK_EX)
        if self._whole.exists():
            os.close(filling)
            return True
        self._filling = filling
        shutil.rmtree(self.store, ignore_errors=True)
        self._archive.unlink(missing_ok=True)
        return False

    def add(self, piece: bytes) -> None:
        """Add the next piece of the archive of the captures."""
        with self._archive.open("ab") as file:
            file.write(piece)

    def finish(self) -> None:
        """Read the archive, if it was added. Raises DigestMismatch if it is damaged."""
        if self._filling is None:
            return
        import_archive(Store.open(self.store), self._archive)
        self._archive.unlink()
        self._whole.touch()
        os.close(self._filling)
        self._filling = None

    def leave(self) -> None:
        """Leave it; the last one removes it."""
        if self._filling is not None:
            os.close(self._filling)
            self._filling = None
        with contextlib.suppress(OSError):
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(self._path, ignore_errors=True)
        os.close(self._fd)

    @property
    def _whole(self) -> Path:
        return self._path / "whole"

    @property
    def _archive(self) -> Path:
        return self._path / "captures.tar"

    def _lock(self) -> int:
        """Open and lock the folder; -1 if it was removed meanwhile."""
        fd = os.open(self._path, _FOLDER)
        status = os.fstat(fd)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            os.close(fd)
            raise DeviceError(f"{self._path} is not a private folder of ours", hint="remove it")
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(fd, fcntl.LOCK_SH)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(status, self._path.lstat()):
                return fd
        os.close(fd)
        return -1
