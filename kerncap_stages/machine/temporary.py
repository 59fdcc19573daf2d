"""Folders of ours in the temporary folder, and the end of those that a kill left there.

Whoever uses one holds a lock on the folder itself (``flock``), which ends with the process. One that nobody
holds is stale. It is removed by whoever makes the next one: only folders of this user with a name of ours.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "kerncap-stages-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_swept: set[Path] = set()  # by this process


class TemporaryFolder:
    """Made at once; use as a context manager, or call ``remove``."""

    def __init__(self, purpose: str, within: Path | None = None) -> None:
        """``purpose``: part of its name. ``within``: else the user's temporary folder."""
        place = Path(tempfile.gettempdir()) if within is None else within
        if place not in _swept:
            _swept.add(place)
            remove_stale(place)
        locked = False
        while not locked:  # another process may take it for stale until it is locked
            self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{purpose}-", dir=place))
            try:
                self._fd = os.open(self.path, _FOLDER)
            except FileNotFoundError:
                continue
            locked = _lock(self._fd) and _is_at(self._fd, self.path)
            if not locked:
                os.close(self._fd)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_error: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove it with all that is in it."""
        if self._fd >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._fd)
            self._fd = -1


def remove_stale(place: Path) -> None:
    """Remove what processes of this user left that were killed; what cannot be looked at stays."""
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
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


def _lock(fd: int) -> bool:
    """Whether nobody else holds it. A file system without locks has none to find either."""
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
