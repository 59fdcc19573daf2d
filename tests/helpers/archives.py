"""Changed archives of a store."""

from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def rewrite(path: Path, change: Callable[[str, bytes], list[tuple[str, bytes]]]) -> None:
    """Write an archive again, its members changed: change(name, content) gives the new ones."""
    members = []
    with tarfile.open(path) as archive:
        for member in archive:
            members += change(member.name, archive.extractfile(member).read())
    with tarfile.open(path, "w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def change_index(path: Path, **changes: Any) -> None:
    """Write an archive again with another list of artifacts: ``changes`` replace its members."""

    def change(name: str, content: bytes) -> list[tuple[str, bytes]]:
        if name != "kerncap-archive.json":
            return [(name, content)]
        return [(name, json.dumps(json.loads(content) | changes).encode())]

    rewrite(path, change)
