"""The store, as stages use it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kerncap_stages import _native
from kerncap_stages.errors import ArtifactNotFound, Refused
from kerncap_stages.store import artifacts, naming
from kerncap_stages.store.actions import ActionCache
from kerncap_stages.store.closure import (
    MAX_LIST_BYTES,
    Closure,
    find_dependents,
    find_whole_memory,
    parse_chunk_list,
    walk,
)
from kerncap_stages.store.folder import Folder, choose_path, prepare
from kerncap_stages.store.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt
    from typing_extensions import Buffer

    from kerncap_stages.digest import Digest
    from kerncap_stages.store.artifacts import ArtifactEntry

# The largest object that `get` returns; larger files are streamed.
MAX_BYTES_AT_ONCE = 1 << 30


class Store:
    """An open store. Objects are immutable; lists and names refer to them."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.root = folder.root
        self.actions = ActionCache(folder)
        self._kept: tuple[Digest, bytes] | None = None

    @classmethod
    def open(cls, path: Path | None = None, *, create: bool = True) -> Store:
        """Open the store at ``path``, by default KERNCAP_STORE or the user's; ``create`` it if there is none.

        Raises ArtifactError if there is none and ``create`` is not set, StoreError if the system fails,
        Refused if its format has another version.
        """
        root = (path or choose_path()).expanduser().absolute()
        prepare(root, create=create)
        return cls(Folder(root))

    def has(self, digest: Digest) -> bool:
        """Whether an object exists."""
        return self.folder.native.has(digest)

    def has_memory(self, digest: Digest) -> bool:
        """Whether a chunk list can be read and all its chunks exist."""
        return find_whole_memory(digest, self._read_list, self.folder.native.absent) is not None

    def _read_list(self, digest: Digest) -> bytes:
        """Return the payload of a manifest or a chunk list, verified."""
        return self.folder.native.read(digest, MAX_LIST_BYTES, True)

    def get(self, digest: Digest, *, verify: bool = True) -> bytes:
        """Return the payload of an object of up to 1 GiB.

        Raises ArtifactNotFound if it is missing, DigestMismatch if it is damaged.
        """
        return self.folder.native.read(digest, MAX_BYTES_AT_ONCE, verify)

    def get_kept(self, digest: Digest) -> bytes:
        """Return an object like ``get``, and keep the last one: a stage reads its code object many times."""
        kept = self._kept  # another thread may replace it
        if kept is None or kept[0] != digest:
            kept = self._kept = (digest, self.get(digest))
        return kept[1]

    def stream(self, digest: Digest, fd: int) -> int:
        """Write the payload of an object of any size to a file descriptor; returns its size in bytes.

        If it raises an error for damage, the caller must discard what was written. Raises like ``get``.
        """
        return self.folder.native.stream(digest, fd)

    def read_declared_size(self, digest: Digest) -> int:
        """Return the size in bytes of an object's payload, from its header; 0 if it is absent or damaged."""
        return self.folder.native.total_sizes([digest])[1]

    def read_chunk_list(self, digest: Digest) -> tuple[int, int, tuple[Digest | None, ...]]:
        """Return (size in bytes, chunk size in bytes, chunks) of a memory; None is a chunk of zeros.

        Raises like ``get``.
        """
        return parse_chunk_list(self._read_list(digest), digest)

    def read_memory_size(self, digest: Digest) -> int:
        """Return the size in bytes of a memory."""
        return _native.memory_size(self.folder.native, digest)

    def read_memory(
        self, digest: Digest, out: Buffer | None = None, *, verify: bool = True
    ) -> npt.NDArray[np.uint8]:
        """Read a memory on all cores; returns uint8[size_bytes], a view of ``out`` if that is given.

        out: writable, C-contiguous, with exactly the memory's size; filled in place.
        Raises DigestMismatch if a chunk is damaged, ArtifactNotFound if one is missing, UsageError if
        ``out`` has another size.
        """
        # numpy takes longer to import than most stages need the store.
        import numpy as np

        if out is None:
            size_bytes = self.read_memory_size(digest)
            try:
                target = np.empty(size_bytes, np.uint8)
            except MemoryError as error:
                raise Refused(
                    f"memory {digest.short} has {size_bytes:,} bytes, more than this machine has free",
                    hint="use a machine with more memory",
                ) from error
        else:
            view = memoryview(out)
            target = np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)
        with self.folder.lock_shared():
            _native.read_memory(self.folder.native, digest, target, verify)
        return target

    def begin_transaction(self, *, threads: int = 0) -> Transaction:
        """Begin a transaction, which can write; ``threads`` 0 means one for each processor."""
        return Transaction(self.folder, threads)

    def list_artifacts(self, kind: str | None = None) -> list[ArtifactEntry]:
        """Return the listed artifacts, newest first."""
        return [entry for entry in artifacts.read_artifacts(self.root) if kind in (None, entry.kind)]

    def resolve(self, text: str) -> Digest:
        """Return the artifact that a user means by a digest or its start, a name, ``@``, ``@capture~1``.

        Raises ArtifactNotFound if there is none, UsageError if there are several.
        """
        return naming.resolve(self.root, text)

    def name(self, name: str, digest: Digest) -> None:
        """Give an artifact a name."""
        naming.give_name(self.folder, name, digest)

    def unname(self, name: str) -> None:
        """Remove a name."""
        naming.take_name(self.folder, name)

    def names(self) -> dict[str, Digest]:
        """Return all names with their artifacts, in alphabetical order."""
        return artifacts.read_names(self.root)

    def list_again(self, digest: Digest) -> None:
        """Make a listed artifact the latest, as if it were made now."""
        artifacts.list_again(self.folder, digest)

    def remove(self, digest: Digest) -> None:
        """Remove an artifact and its names from the list; a later collection removes its objects."""
        artifacts.unlist_artifact(self.folder, digest)

    def prune(self, keep_last: int, kind: str | None = None) -> list[Digest]:
        """Remove all but the newest ``keep_last`` of each kind from the list, and return the removed ones.

        Artifacts with a name stay. Raises StoreError if others use the store for too long.
        """
        if not self._find_prunable(keep_last, kind):
            return []
        # Under the lock nobody names or lists an artifact between this look and the removal.
        with self.folder.lock_exclusively():
            pruned = []
            for digest in self._find_prunable(keep_last, kind):
                with contextlib.suppress(ArtifactNotFound):  # `kc-store rm` needs no lock and may be faster
                    self.remove(digest)
                    pruned.append(digest)
        return pruned

    def _find_prunable(self, keep_last: int, kind: str | None) -> list[Digest]:
        seen: dict[str, int] = {}
        beyond = []
        for entry in self.list_artifacts(kind):
            seen[entry.kind] = seen.get(entry.kind, 0) + 1
            if seen[entry.kind] > keep_last and not entry.names:
                beyond.append(entry.digest)
        return beyond

    def walk(
        self,
        roots: Iterable[Digest],
        closure: Closure | None = None,
        *,
        parents: bool = True,
        kept: bool = True,
        damaged: Collection[Digest] = (),
    ) -> Closure:
        """Return all objects reachable from ``roots``; without a lock, a collector may interfere.

        Further arguments: as for ``closure.walk``.
        """
        native = self.folder.native
        return walk(
            roots,
            self._read_list,
            native.absent,
            closure=closure,
            parents=parents,
            kept=kept,
            damaged=damaged,
        )

    def find_closure(self, digest: Digest, *, parents: bool = True) -> Closure:
        """Return the objects of an artifact; with ``parents``, also of those that it was made from."""
        with self.folder.lock_shared():
            return self.walk([digest], parents=parents)

    def find_dependents(self, targets: Collection[Digest]) -> list[Digest]:
        """Return the listed artifacts that are among ``targets``, or were made from one, the latest first."""
        with self.folder.lock_shared():
            roots = [each.digest for each in self.list_artifacts()]
            return find_dependents(roots, targets, self._read_list)
