"""The cache of roots: their folders, and the locks that keep runs from disturbing each other.

CACHE/roots/KEY/fs/            the root file system
CACHE/roots/KEY/versions.json  what is in it
CACHE/roots/KEY/build.log      how it was made
CACHE/roots/.making-KEY/       a root that is being made; renamed to KEY when it is complete
CACHE/downloads/KEY/           packages that a run downloaded which did not end; the next run takes them
CACHE/locks/KEY                flock: shared while a command runs in the root, exclusive to make or remove it
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerncap_stages.errors import Refused
from kerncap_stages.rocm_root.children import run_in_child

if TYPE_CHECKING:
    from collections.abc import Iterator

CACHE_VARIABLE = "KERNCAP_ROOT_CACHE"


def find_cache_folder() -> Path:
    """Return ``KERNCAP_ROOT_CACHE``, else the user's cache folder."""
    if given := os.environ.get(CACHE_VARIABLE):
        return Path(given).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "kerncap-stages"


def make_cache() -> None:
    """Make the folder of the roots. Raises Refused if that is not possible."""
    folder = find_cache_folder() / "roots"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(
            f"roots cannot be kept in {find_cache_folder()}: {error.strerror}",
            hint=f"set {CACHE_VARIABLE} to a folder that you can write to",
        ) from error


@dataclass(frozen=True)
class Root:
    """One root file system in the cache; it may not exist yet."""

    key: str

    @property
    def folder(self) -> Path:
        """Its folder in the cache."""
        return find_cache_folder() / "roots" / self.key

    @property
    def files(self) -> Path:
        """The root file system itself."""
        return self.folder / "fs"

    @property
    def making(self) -> Path:
        """Where it is built."""
        return find_cache_folder() / "roots" / f".making-{self.key}"

    @property
    def downloads(self) -> Path:
        """Packages that a run downloaded which was interrupted, or failed."""
        return find_cache_folder() / "downloads" / self.key

    def exists(self) -> bool:
        """Whether it exists. A root that exists is complete."""
        return self.files.is_dir()

    def read_versions(self) -> dict[str, Any]:
        """What was recorded when it was made."""
        recorded: dict[str, Any] = json.loads((self.folder / "versions.json").read_text())
        return recorded


def list_roots() -> list[Root]:
    """Every root in the cache, by name."""
    folder = find_cache_folder() / "roots"
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    return [Root(name) for name in names if not name.startswith(".")]


def hold(root: Root, *, exclusive: bool, wait: bool = True) -> int:
    """Lock a root until the returned file descriptor, and all inherited copies of it, are closed."""
    folder = find_cache_folder() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / root.key, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        if not wait:
            os.close(lock)
            raise Refused(
                f"root {root.key} is in use", hint="try again when the commands in it have ended"
            ) from None
        print(f"kc-root: waiting for another kc-root that uses {root.key}", file=sys.stderr, flush=True)
        fcntl.flock(lock, kind)
    return lock


@contextmanager
def lock_root(root: Root, *, wait: bool = True) -> Iterator[None]:
    """Lock a root exclusively: no other process makes, removes or uses it in this block."""
    lock = hold(root, exclusive=True, wait=wait)
    os.set_inheritable(lock, True)  # if kc-root is killed, its child programs hold the lock until they end
    try:
        yield
    finally:
        os.close(lock)


def remove(root: Root) -> None:
    """Remove a root from the cache. Raises Refused if a command runs in it."""
    with lock_root(root, wait=False):
        remove_tree(root.folder)


def remove_tree(folder: Path) -> None:
    """Delete a folder, even if files in it belong to the user's subordinate ids."""
    if not folder.exists():
        return
    dying = folder.with_name(f".dying-{folder.name.lstrip('.')}-{os.getpid()}")
    folder.rename(dying)
    shutil.rmtree(dying, ignore_errors=True)
    if dying.exists() and run_in_child(lambda: shutil.rmtree(dying), private=True) != 0:
        raise Refused(f"cannot delete {dying}", hint="look at its permissions")


def sweep(wanted: Root) -> None:
    """Delete folders that killed runs left half made or half deleted, and downloads for other roots."""
    for path in (find_cache_folder() / "downloads").glob("*"):
        if path != wanted.downloads:
            remove_tree(path)
    for path in (find_cache_folder() / "roots").glob(".*"):
        try:
            if path.name.startswith(".making-"):
                with lock_root(Root(path.name.removeprefix(".making-")), wait=False):
                    remove_tree(path)
            else:
                remove_tree(path)
        except Refused:  # another process is making or deleting it now
            continue
