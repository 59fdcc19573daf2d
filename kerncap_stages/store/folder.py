"""The store's folder: makes it, locks it, and writes small files atomically."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages import _native
from kerncap_stages.errors import ArtifactError, StoreError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT = "kerncap-store 1\n"
FOLDERS = ("objects", "tmp", "artifacts", "names", "actions")
_LOCKS = ("lock", "gate")
_COLLECTOR_WAITS_S = 120.0


def choose_path() -> Path:
    """Return KERNCAP_STORE, or a folder in the user's data folder if it is not set."""
    chosen = os.environ.get("KERNCAP_STORE")
    if chosen:
        return Path(chosen)
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "kerncap-stages" / "store"


def prepare(path: Path, *, create: bool) -> None:
    """Make the store's folder if it does not exist; raise UsageError if it holds anything else.

    The format file is written last, so a folder without it was never a complete store.
    """
    try:
        if (path / "format").exists():
            return
        if not create:
            raise _make_absent_error(path)
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is not a folder", hint="pass another one: --store DIR")
        if path.is_dir() and _find_foreign(path):
            raise UsageError(
                f"{path} holds files that are not a store's", hint="pass an empty or a new folder"
            )
        if not path.is_dir():
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o700)
        for name in FOLDERS:
            (path / name).mkdir(exist_ok=True, mode=0o700)
        for name in _LOCKS:
            (path / name).touch(mode=0o600)
        # Locked: another process may have made the store meanwhile, and remove drafts while nobody holds the
        # lock.
        with _lock_shared(path):
            _replace(path, path / "format", FORMAT)
    except OSError as error:
        raise StoreError(
            f"cannot create a store at {path}: {error.strerror or error}",
            hint="name a folder that you may write to, with free space: --store DIR, or KERNCAP_STORE",
        ) from error


def _make_absent_error(path: Path) -> ArtifactError:
    if can_be_made(path):
        return ArtifactError(
            f"there is no store at {path}",
            hint="`kc-profile -- ./app` creates one there; or pass --store DIR",
        )
    why = "it holds other files" if path.is_dir() else "it is not a folder"
    return ArtifactError(f"{path} is not a store: {why}", hint="pass another one: --store DIR")


def can_be_made(path: Path) -> bool:
    """Whether a store can be made at ``path``: it does not exist, is empty, or is an incomplete store.

    Raises StoreError if the system does not let us read it.
    """
    try:
        return not path.exists() or (
            path.is_dir() and not (path / "format").exists() and not _find_foreign(path)
        )
    except OSError as error:
        raise make_system_error(f"cannot read {path}", error) from error


def _find_foreign(path: Path) -> set[str]:
    return {file.name for file in path.iterdir()} - {*FOLDERS, *_LOCKS, "format"}


@contextlib.contextmanager
def _lock_shared(path: Path) -> Iterator[None]:
    """Lock a store that cannot be opened yet, as docs/store.md describes."""
    with (path / "gate").open() as gate, (path / "lock").open() as lock:
        fcntl.flock(gate, fcntl.LOCK_SH)
        fcntl.flock(lock, fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield


def list_folder(root: Path, name: str) -> list[Path]:
    """Return the files in one of the store's folders.

    Raises StoreError if the folder does not exist: without it a collection would remove all that it listed.
    """
    try:
        return list((root / name).iterdir())
    except OSError as error:
        if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            raise make_system_error(f"cannot read {root / name}", error) from error
        raise StoreError(
            f"the store's folder {root / name} does not exist",
            hint="restore it from a copy of the store; without a copy, create an empty one (mkdir -m 700): "
            "what it listed is lost",
        ) from error


def make_system_error(what: str, error: OSError) -> StoreError:
    """Make an error with a next step from an error of the operating system."""
    hint = "check the disk and its file system, then run this again"
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        hint = (
            "use a store that you may write to: --store DIR, or set KERNCAP_STORE; "
            "`kc-store export` copies artifacts from this one"
        )
    elif error.errno == errno.EFBIG:
        hint = "raise the limit on the size of files (`ulimit -f unlimited`), then run this again"
    return StoreError(f"{what}: {error.strerror or error}", hint=hint)


def _replace(root: Path, path: Path, text: str) -> None:
    """Write a file atomically and durably: after a crash it has the old text or the new one."""
    draft = root / "tmp" / f"small-{os.urandom(8).hex()}"
    try:
        with draft.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def sync_folder(path: Path) -> None:
    """Make renames and removals in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class Folder:
    """An open store's folder."""

    def __init__(self, root: Path) -> None:
        """Open the folder, which ``prepare`` has made.

        Raises UsageError if it is not a store, Refused if its version is unknown, StoreError if the system
        fails.
        """
        self.root = root
        self.native = _native.ObjectStore.open(root)

    def find_object_path(self, digest: str) -> Path:
        """Return the path of an object."""
        return self.root / "objects" / digest[:2] / digest

    @contextlib.contextmanager
    def lock_shared(self) -> Iterator[None]:
        """Lock out collectors for a ``with`` block, so that no object disappears in it."""
        lock = self.native.lock_shared()
        try:
            yield
        finally:
            lock.release()

    @contextlib.contextmanager
    def lock_exclusively(self) -> Iterator[None]:
        """Lock out all others for a ``with`` block, which must not take the shared lock.

        Raises StoreError if others use the store for too long.
        """
        self.require_ours()
        lock = self.native.lock_exclusive(_COLLECTOR_WAITS_S)
        try:
            yield
        finally:
            lock.release()

    def is_writable(self) -> bool:
        """Whether the store is this user's, and the file system can be written."""
        return self.root.stat().st_uid == os.geteuid() and os.access(self.root / "tmp", os.W_OK | os.X_OK)

    def require_ours(self) -> None:
        """Raise StoreError if the store is another user's: files that we wrote there would not be theirs."""
        owner = self.root.stat().st_uid
        if owner != os.geteuid():
            raise StoreError(
                f"the store {self.root} belongs to user {owner}, but this runs as user {os.geteuid()}",
                hint="run as that user, or use a store of your own: --store DIR",
            )

    def write_small(self, path: Path, text: str) -> None:
        """Write a small file atomically and durably."""
        self.require_ours()
        try:
            with self.lock_shared():
                _replace(self.root, path, text)
        except OSError as error:
            raise make_system_error(f"cannot write {path}", error) from error

    def rewrite_small(self, path: Path, text: str) -> None:
        """Replace a small file if it exists; one that was removed is not written again."""
        self.require_ours()
        try:
            with self.lock_shared():
                if path.exists():
                    _replace(self.root, path, text)
        except OSError as error:
            raise make_system_error(f"cannot write {path}", error) from error

    def remove_small(self, path: Path) -> None:
        """Remove a small file durably, if it exists."""
        self.require_ours()
        try:
            path.unlink(missing_ok=True)
            sync_folder(path.parent)
        except OSError as error:
            raise make_system_error(f"cannot remove {path}", error) from error
