"""The store's folder: making it, its locks, and small files that change whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
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
            raise _absent(path)
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is not a folder", hint="pass another one: --store DIR")
        if path.is_dir() and _foreign(path):
            raise UsageError(
                f"{path} holds something else than a store", hint="pass an empty or a new folder"
            )
        if not path.is_dir():
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o700)
        for name in FOLDERS:
            (path / name).mkdir(exist_ok=True, mode=0o700)
        for name in _LOCKS:
            (path / name).touch(mode=0o600)
        # Somebody else may have made it meanwhile, and clear drafts that nobody holds the lock for.
        with _lock_shared(path):
            _replace(path, path / "format", FORMAT)
    except OSError as error:
        raise StoreError(
            f"cannot make a store at {path}: {error.strerror or error}",
            hint="name a folder that you may write to, on a disk with room: --store DIR, or KERNCAP_STORE",
        ) from error


def _absent(path: Path) -> ArtifactError:
    if is_still_to_come(path):
        return ArtifactError(
            f"there is no store at {path}", hint="`kc-profile -- ./app` makes one there; or pass --store DIR"
        )
    why = "it holds something else" if path.is_dir() else "it is not a folder"
    return ArtifactError(f"{path} is no store: {why}", hint="pass another one: --store DIR")


def is_still_to_come(path: Path) -> bool:
    """Whether a store can be made at ``path``: nothing is there, or an empty folder, or a store half made.

    Raises StoreError if the system does not let us look.
    """
    try:
        return not path.exists() or (path.is_dir() and not (path / "format").exists() and not _foreign(path))
    except OSError as error:
        raise system_error(f"cannot read {path}", error) from error


def _foreign(path: Path) -> set[str]:
    return {file.name for file in path.iterdir()} - {*FOLDERS, *_LOCKS, "format"}


@contextlib.contextmanager
def _lock_shared(path: Path) -> Iterator[None]:
    """Lock a store that cannot be opened yet, as docs/store.md says."""
    with (path / "gate").open() as gate, (path / "lock").open() as lock:
        fcntl.flock(gate, fcntl.LOCK_SH)
        fcntl.flock(lock, fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield


def list_folder(root: Path, name: str) -> list[Path]:
    """What lies in one of the store's folders.

    Raises StoreError if it is not there: to go on would be to take all that it listed for unneeded.
    """
    try:
        return list((root / name).iterdir())
    except OSError as error:
        if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            raise system_error(f"cannot read {root / name}", error) from error
        raise StoreError(
            f"the store's folder {root / name} is not there",
            hint="put it back from a copy of the store; without one make it empty (mkdir -m 700): "
            "what it listed is lost",
        ) from error


def system_error(what: str, error: OSError) -> StoreError:
    """An operating system's refusal as an error with a next step."""
    hint = "look at the disk and its file system, then run this again"
    if isinstance(error, PermissionError) or error.strerror == os.strerror(30):  # EROFS
        hint = (
            "use a store that you may write to: --store DIR, or set KERNCAP_STORE; "
            "`kc-store export` copies artifacts out of this one"
        )
    return StoreError(f"{what}: {error.strerror or error}", hint=hint)


def _replace(root: Path, path: Path, text: str) -> None:
    """Write a file whole and durably: it has the old text or the new, whatever happens."""
    draft = root / "tmp" / f"small-{secrets.token_hex(8)}"
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
        """Open it; ``prepare`` has made it.

        Raises UsageError if it is no store, Refused if its version is unknown, StoreError if the system does.
        """
        self.root = root
        self.native = _native.ObjectStore.open(root)

    def object_path(self, digest: str) -> Path:
        """Where an object lies."""
        return self.root / "objects" / digest[:2] / digest

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Keep a collector away, so that what is read together stays together."""
        lock = self.native.lock_shared()
        try:
            yield
        finally:
            lock.release()

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep everybody else away. Nothing inside may take the shared lock.

        Raises StoreError if others use the store for too long.
        """
        self.require_ours()
        lock = self.native.lock_exclusive(_COLLECTOR_WAITS_S)
        try:
            yield
        finally:
            lock.release()

    def is_writable(self) -> bool:
        """Whether this user may write here, and the file system lets them."""
        return self.root.stat().st_uid == os.geteuid() and os.access(self.root / "tmp", os.W_OK | os.X_OK)

    def require_ours(self) -> None:
        """Raise StoreError if the store is another user's: what we wrote there could not be theirs."""
        owner = self.root.stat().st_uid
        if owner != os.geteuid():
            raise StoreError(
                f"the store {self.root} belongs to user {owner}, and this runs as user {os.geteuid()}",
                hint="run as that user, or use a store of your own: --store DIR",
            )

    def write_small(self, path: Path, text: str) -> None:
        """Write a small file whole and durably."""
        self.require_ours()
        try:
            with self.shared():
                _replace(self.root, path, text)
        except OSError as error:
            raise system_error(f"cannot write {path}", error) from error

    def rewrite_small(self, path: Path, text: str) -> None:
        """Replace a small file that is there; one that was removed stays so."""
        self.require_ours()
        try:
            with self.shared():
                if path.exists():
                    _replace(self.root, path, text)
        except OSError as error:
            raise system_error(f"cannot write {path}", error) from error

    def remove_small(self, path: Path) -> None:
        """Remove a small file durably; absence is fine."""
        self.require_ours()
        try:
            path.unlink(missing_ok=True)
            sync_folder(path.parent)
        except OSError as error:
            raise system_error(f"cannot remove {path}", error) from error
