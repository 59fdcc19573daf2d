"""The action cache: what stages made from the same inputs before. Entries protect nothing from collection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.digest import Digest
from kerncap_stages.store.artifacts import is_digest, read_small
from kerncap_stages.store.folder import list_folder

if TYPE_CHECKING:
    from kerncap_stages.store.folder import Folder


class ActionCache:
    """Maps the digest of (stage, version, options, inputs, tools) to the digest of an output manifest."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._entries = folder.root / "actions"

    def get(self, key: Digest) -> Digest | None:
        """Return the output if it is known and still a listed artifact, so that the store has all of it."""
        return self._find_output(key)

    def put(self, key: Digest, output: Digest) -> None:
        """Remember an output. ``get`` finds it only while it is a listed artifact."""
        self._folder.write_small(self._entries / key, f"{output}\n")

    def drop_stale(self) -> int:
        """Remove entries whose artifact is not listed any more; returns how many."""
        entries = list_folder(self._folder.root, "actions")
        stale = [
            path.name
            for path in entries
            if is_digest(path.name) and path.is_file() and self._find_output(path.name) is None
        ]
        for name in stale:
            self._folder.remove_small(self._entries / name)
        return len(stale)

    def _find_output(self, key: str) -> Digest | None:
        try:
            text = read_small(self._entries / key).decode("ascii").strip()
        except (OSError, ValueError):
            return None
        return Digest(text) if is_digest(text) and (self._folder.root / "artifacts" / text).exists() else None
