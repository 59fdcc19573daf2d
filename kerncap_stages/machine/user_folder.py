"""Writes files into a folder of the user, who may have put symbolic links into it.

Nothing is written through a symbolic link below that folder, because a link may lead out of it. The folder
itself may be a link, since the user named it.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from kerncap_stages.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def write_file(folder: Path, name: str, content: bytes, *, executable: bool = False) -> None:
    """Write a file below a folder, atomically: if the process is killed, the old file stays.

    name: its path below the folder, with `/`; missing folders are made. A link in the file's place is
    replaced.
    Raises Refused if a folder in the path is a link.
    """
    with _open_parent(folder, name, make=True) as (parent, last):
        draft = f".kerncap-{os.urandom(8).hex()}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            fd = os.open(draft, flags, 0o777 if executable else 0o666, dir_fd=parent)
            with os.fdopen(fd, "wb") as file:
                file.write(content)
            os.replace(draft, last, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=parent)
            raise


def remove_file(folder: Path, name: str) -> None:
    """Remove a file below a folder, or a link in its place.

    Raises Refused if a folder in the path is a link.
    """
    with _open_parent(folder, name, make=False) as (parent, last):
        os.unlink(last, dir_fd=parent)


def require_no_links(folder: Path, names: Iterable[str]) -> None:
    """Raise Refused if a folder in the path of one of the files is a link; writes nothing."""
    for name in names:
        with contextlib.suppress(FileNotFoundError), _open_parent(folder, name, make=False):
            pass


@contextlib.contextmanager
def _open_parent(folder: Path, name: str, *, make: bool) -> Iterator[tuple[int, str]]:
    """Open the folder that holds a file, for a ``with`` block; yields its descriptor and the file's name."""
    *above, last = name.split("/")
    if {"", ".", ".."} & {*above, last}:
        raise Refused(f"{name!r} is not a path below {folder}", hint="generate the project again")
    fd = os.open(folder, _FOLDER)
    try:
        for number, step in enumerate(above, start=1):
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(step, dir_fd=fd)
            below = _open_below(fd, step, folder.joinpath(*above[:number]))
            os.close(fd)
            fd = below
        yield fd, last
    finally:
        os.close(fd)


def _open_below(parent: int, step: str, path: Path) -> int:
    try:
        return os.open(step, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as error:
        if not path.is_symlink():
            raise
        raise Refused(
            f"{path} is a symbolic link, and nothing is written through links",
            hint="replace it by a folder, or give another folder",
        ) from error
