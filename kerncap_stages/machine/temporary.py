"""Makes temporary folders, and removes those of processes that were killed.

A process holds a lock (``flock``) on each of its folders, which ends with the process. A folder that no
process has locked is stale. The next process that makes one removes stale folders: only those of the same
user that have our prefix.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

PREFIX = "kerncap-stages-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_FULL_BYTES = 64 << 10  # a write that fails leaves less than a block, and others may free some meanwhile

_swept: set[Path] = set()  # by this process


class TemporaryFolder:
    """A temporary folder, made on construction; use it as a context manager, or call ``remove``."""

    def __init__(self, purpose: str, within: Path | None = None) -> None:
        """``purpose``: part of its name. ``within``: where to make it; default: the temporary folder."""
        place = Path(tempfile.gettempdir()) if within is None else within
        if place not in _swept:
            _swept.add(place)
            remove_stale(place)
        locked = False
        while not locked:  # before it is locked, another process may remove it as stale
            self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{purpose}-", dir=place))
            try:
                self._fd = os.open(self.path, _FOLDER)
            except FileNotFoundError:
                continue
            locked = _try_lock(self._fd) and _is_at(self._fd, self.path)
            if not locked:
                os.close(self._fd)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Remove the folder. An error of a full disk gets the name of the folder that holds this one."""
        # Linux names no file where a write fails. The block may also write elsewhere, to a disk that is full.
        if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
            with contextlib.suppress(OSError):
                if shutil.disk_usage(self.path).free < _FULL_BYTES:
                    error.filename = os.fspath(self.path.parent)
        self.remove()

    def remove(self) -> None:
        """Remove the folder with its contents."""
        if self._fd >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._fd)
            self._fd = -1


def remove_stale(place: Path) -> None:
    """Remove the folders that killed processes of this user left; those that cannot be opened stay."""
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with contextlib.suppress(OSError):
                    _remove_if_stale(Path(entry.path))


def _remove_if_stale(path: Path) -> None:
    fd = os.open(path, _FOLDER)
    try:
        if os.fstat(fd).st_uid == os.geteuid():
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(fd)


def _try_lock(fd: int) -> bool:
    """Lock a folder; False if another process holds the lock. A file system without locks: True."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.lstat())
    except FileNotFoundError:
        return False
