"""The store's folder: making it, and small files that change whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.errors import ArtifactError, StoreError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT = "kerncap-store 1\n"
FOLDERS = ("objects", "tmp", "artifacts", "names", "actions")
_LOCK_TIMEOUT_S = 60.0


def default_path() -> Path:
    """KERNCAP_STORE, else a folder in the user's data folder."""
    chosen = os.environ.get("KERNCAP_STORE")
    if chosen:
        return Path(chosen)
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "kerncap-stages" / "store"


def prepare(path: Path, *, create: bool) -> None:
    """Make the folder if it is not there; refuse one that holds something else.

    The format file is written last: a folder without it was never a store.
    """
    try:
        if (path / "format").exists():
            return
        if not create:
            raise ArtifactError(f"no store at {path}", hint="a stage makes one; or pass --store DIR")
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is not a folder", hint="pass --store DIR")
        if path.is_dir() and {entry.name for entry in path.iterdir()} - {*FOLDERS, "lock"}:
            raise UsageError(f"{path} is a folder of something else", hint="pass an empty or a new folder")
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.chmod(0o700)
        for name in FOLDERS:
            (path / name).mkdir(exist_ok=True, mode=0o700)
        (path / "lock").touch(mode=0o600)
        write_small(path, path / "format", FORMAT)
    except OSError as error:
        raise system_error(f"cannot make a store at {path}", error) from error


def system_error(what: str, error: OSError) -> StoreError:
    """An operating system's refusal as an error with a next step."""
    hint = None
    if isinstance(error, PermissionError):
        hint = "use a store that is yours: --store DIR, or set KERNCAP_STORE"
    return StoreError(f"{what}: {error.strerror or error}", hint=hint)


def write_small(root: Path, path: Path, text: str) -> None:
    """Write a small file whole and durably: it has the old text or the new, whatever happens."""
    temporary = root / "tmp" / f"small-{secrets.token_hex(8)}"
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise system_error(f"cannot write {path}", error) from error


def remove_small(path: Path) -> None:
    """Remove a small file durably; absence is fine."""
    try:
        path.unlink(missing_ok=True)
        sync_folder(path.parent)
    except OSError as error:
        raise system_error(f"cannot remove {path}", error) from error


def sync_folder(path: Path) -> None:
    """Make renames and removals in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def locked(root: Path, *, exclusive: bool, timeout_s: float = _LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold the store's lock: shared to read or write, exclusive to collect.

    Raises StoreError when it cannot be had in time.
    """
    fd = os.open(root / "lock", os.O_RDONLY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + timeout_s
        while not _try_lock(fd, exclusive=exclusive):
            if time.monotonic() > deadline:
                raise StoreError(
                    f"the store {root} is in use by another process",
                    hint="wait for the stages that use it to end, then run this again",
                )
            time.sleep(0.02)
        yield
    finally:
        os.close(fd)


def _try_lock(fd: int, *, exclusive: bool) -> bool:
    try:
        fcntl.flock(fd, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def clear_abandoned(root: Path) -> int:
    """Remove what killed transactions left; only under the exclusive lock. Returns how many there were."""
    count = 0
    for entry in os.scandir(root / "tmp"):
        count += 1
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                Path(entry.path).unlink()
    return count


def clear_if_idle(root: Path) -> None:
    """Remove what killed transactions left, if nobody uses the store right now."""
    if not any(os.scandir(root / "tmp")):
        return
    with contextlib.suppress(StoreError), locked(root, exclusive=True, timeout_s=0.0):
        clear_abandoned(root)
