"""The action cache: what a stage made from the same inputs before. An entry keeps nothing alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.digest import Digest
from kerncap_stages.store.folder import remove_small, write_small

if TYPE_CHECKING:
    from pathlib import Path


class ActionCache:
    """Maps the digest of (stage, version, options, inputs, tools) to the digest of an output manifest."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def get(self, key: Digest) -> Digest | None:
        """Return the output if it is known and its artifact is still listed."""
        try:
            output = Digest((self._root / "actions" / key).read_text(encoding="ascii").strip())
        except (OSError, ValueError):
            return None
        return output if (self._root / "artifacts" / output).exists() else None

    def put(self, key: Digest, output: Digest) -> None:
        """Remember an output."""
        write_small(self._root, self._root / "actions" / key, f"{output}\n")

    def drop_stale(self) -> int:
        """Forget entries whose artifact is gone; returns how many."""
        stale = [path for path in (self._root / "actions").iterdir() if self.get_path(path) is None]
        for path in stale:
            remove_small(path)
        return len(stale)

    def get_path(self, path: Path) -> Digest | None:
        """Like ``get``, by the entry's file."""
        try:
            return self.get(Digest(path.name))
        except ValueError:
            return None
