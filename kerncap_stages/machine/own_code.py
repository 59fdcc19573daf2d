"""Computes digests of this package's own code: its version does not change with each commit."""

from __future__ import annotations

import contextlib
import hashlib
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages import __version__
from kerncap_stages.digest import Digest

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGE = Path(__file__).parents[1]
# What a verdict comes from, beside Python: the replayers, the software GPU, and the module `_native`.
_NATIVE_FILES = ("kc-replay-hsa", "kc-replay-cuda", "libkerncap_softgpu.so")
_NATIVE_MODULE = "_native."


def stamp_code(package: Path = _PACKAGE) -> str:
    """Return a digest of the code for keys of the action cache. It takes 3 ms, as it reads no code.

    The list of the installed files has their digests. Sizes and times tell of edits after that.
    """
    hasher = hashlib.sha256()
    for path, entry in _list_code(package):
        with contextlib.suppress(OSError):  # an editor's dangling link; a file that is just replaced
            status = entry.stat()
            hasher.update(f"{path}\0{status.st_size} {status.st_mtime_ns}\0".encode(errors="surrogateescape"))
    record = package.with_name(f"kerncap_stages-{__version__}.dist-info") / "RECORD"
    if record.is_file():
        hasher.update(record.read_bytes())
    return hasher.hexdigest()


@cache
def digest_code(package: Path = _PACKAGE) -> Digest:
    """Return a digest of the contents of the code, for manifests. It takes some 30 ms."""
    hasher = hashlib.sha256()
    for path, entry in _list_code(package):
        with contextlib.suppress(OSError):
            data = Path(entry.path).read_bytes()
            hasher.update(f"{path}\0{len(data)}\0".encode(errors="surrogateescape"))
            hasher.update(data)
    return Digest(hasher.hexdigest())


def _list_code(package: Path) -> list[tuple[str, os.DirEntry[str]]]:
    """List the package's code, with its paths in the package, in their order."""
    begin = len(os.path.join(package, ""))  # noqa: PTH118 - text, of which a part is taken
    return sorted(((entry.path[begin:], entry) for entry in _walk(package)), key=lambda each: each[0])


def _walk(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _walk(entry.path)
            elif _is_code(entry.name):
                yield entry


def _is_code(name: str) -> bool:
    is_module = name.startswith(_NATIVE_MODULE) and name.endswith(".so")
    return is_module or name.endswith(".py") or name in _NATIVE_FILES
