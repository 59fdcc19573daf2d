"""The store as stages see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages import _native
from kerncap_stages.store import artifacts, maintenance
from kerncap_stages.store.actions import ActionCache
from kerncap_stages.store.closure import Closure, parse_chunk_list, walk
from kerncap_stages.store.folder import clear_if_idle, default_path, locked, prepare, system_error
from kerncap_stages.store.transaction import Transaction
from kerncap_stages.store.usage import Usage, object_path, size_on_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt
    from typing_extensions import Buffer

    from kerncap_stages.digest import Digest
    from kerncap_stages.store.artifacts import ArtifactEntry
    from kerncap_stages.store.maintenance import CheckReport, GcReport

    Progress = Callable[[int, int], None]

# What `get` holds in memory at once; larger files are streamed.
MOST_BYTES_AT_ONCE = 2 << 30


class Store:
    """An open store. Objects are immutable; everything else is a list of names."""

    def __init__(self, root: Path, native: _native.ObjectStore) -> None:
        self.root = root
        self.native = native
        self.actions = ActionCache(root)

    @classmethod
    def open(cls, path: Path | None = None, *, create: bool = True) -> Store:
        """Open the store at ``path``, else KERNCAP_STORE's, else the user's; make it if there is none.

        Raises ArtifactError if there is none and none is to be made, StoreError if the system refuses.
        """
        root = (path or default_path()).expanduser().absolute()
        prepare(root, create=create)
        store = cls(root, _native.ObjectStore.open(str(root)))
        try:
            clear_if_idle(root)
        except OSError as error:
            raise system_error(f"cannot use the store {root}", error) from error
        return store

    def has(self, digest: Digest) -> bool:
        """Whether an object is there."""
        return self.native.has(digest)

    def has_many(self, digests: Iterable[Digest]) -> set[Digest]:
        """Those of the objects that are there."""
        return {digest for digest in digests if self.native.has(digest)}

    def get(self, digest: Digest, *, verify: bool = True) -> bytes:
        """The payload of an object.

        Raises ArtifactNotFound if it is missing, DigestMismatch if it is damaged.
        """
        with locked(self.root, exclusive=False):
            return self.native.read(digest, MOST_BYTES_AT_ONCE, verify)

    def read_unlocked(self, digest: Digest) -> bytes:
        """Like ``get``, where the caller holds the store's lock."""
        return self.native.read(digest, MOST_BYTES_AT_ONCE, True)

    def stream(self, digest: Digest, fd: int) -> int:
        """Write the payload of an object of any size to a file descriptor, verified; returns its size."""
        with locked(self.root, exclusive=False):
            return self.native.stream(digest, fd)

    def memory_size(self, digest: Digest) -> int:
        """Size in bytes of the memory that a chunk list describes."""
        return parse_chunk_list(self.get(digest), digest)[0]

    def read_memory(
        self, digest: Digest, out: Buffer | None = None, *, verify: bool = True
    ) -> npt.NDArray[np.uint8]:
        """Restore memory on all cores; returns uint8[size_bytes], a view of ``out`` if that is given.

        out: writable, C-contiguous, of exactly the memory's size; filled in place.
        Raises DigestMismatch if a chunk is damaged, ValueError if ``out`` has another size.
        """
        import numpy as np

        with locked(self.root, exclusive=False):
            size, chunk, chunks = parse_chunk_list(self.read_unlocked(digest), digest)
            target = np.empty(size, np.uint8) if out is None else np.frombuffer(out, np.uint8)
            if target.size != size:
                raise ValueError(f"the buffer has {target.size} bytes, and the memory {size}")
            _native.read_memory(self.native, chunks, chunk, target, verify)
        return target

    def transaction(self, *, threads: int = 0) -> Transaction:
        """Begin writing; ``threads`` 0 means as many as there are processors."""
        return Transaction(self.root, self.native, threads)

    def artifacts(self, kind: str | None = None) -> list[ArtifactEntry]:
        """Listed artifacts, newest first."""
        return [entry for entry in artifacts.read_artifacts(self.root) if kind in (None, entry.kind)]

    def resolve(self, text: str) -> Digest:
        """What a user calls an artifact: digest, start of one, name, ``@``, ``@capture``, ``@capture~1``."""
        return artifacts.resolve(self.root, text)

    def name(self, name: str, digest: Digest) -> None:
        """Let a name mean an artifact."""
        artifacts.give_name(self.root, name, digest)

    def unname(self, name: str) -> None:
        """Forget a name."""
        artifacts.take_name(self.root, name)

    def names(self) -> dict[str, Digest]:
        """Every name, in order."""
        return artifacts.read_names(self.root)

    def remove(self, digest: Digest) -> None:
        """Take an artifact off the list; its objects go with the next collection, unless others need them."""
        artifacts.unlist_artifact(self.root, digest)

    def prune(self, keep_last: int, kind: str | None = None) -> list[Digest]:
        """Take all but the newest ``keep_last`` of each kind off the list, except named ones."""
        seen: dict[str, int] = {}
        pruned = []
        for entry in self.artifacts(kind):
            seen[entry.kind] = seen.get(entry.kind, 0) + 1
            if seen[entry.kind] > keep_last and not entry.names:
                self.remove(entry.digest)
                pruned.append(entry.digest)
        return pruned

    def check(self, *, sample: float | None = None, progress: Progress | None = None) -> CheckReport:
        """Read and hash all objects, or a share (0 to 1) of them, and follow all references."""
        return maintenance.check(self, sample, progress)

    def collect_garbage(self, *, dry_run: bool = False, progress: Progress | None = None) -> GcReport:
        """Remove what no artifact and no name reaches."""
        return maintenance.collect_garbage(self, dry_run=dry_run, progress=progress)

    def closure(self, digest: Digest, *, parents: bool = True) -> Closure:
        """Every object that an artifact consists of; with ``parents`` also those of what it was made from."""
        return walk([digest], self.read_unlocked, self.has, parents=parents)

    def usage(self, digest: Digest | None = None) -> Usage:
        """Room that one artifact takes, or the whole store."""
        if digest is None:
            everything = [each for each, _ in maintenance.stored_objects(self.root) if each is not None]
            logical = sum(self.native.payload_bytes(each) for each in everything)
            return Usage(len(everything), logical, size_on_disk(self.root, everything), 0)
        own = set(self.closure(digest).kinds)
        others: set[Digest] = set()
        for entry in self.artifacts():
            if entry.digest not in own:
                others |= own & self.closure(entry.digest, parents=False).kinds.keys()
        logical = sum(self.native.payload_bytes(each) for each in own)
        return Usage(len(own), logical, size_on_disk(self.root, own), size_on_disk(self.root, others))

    def copy_closure(self, digests: Sequence[Digest], destination: Path) -> None:
        """Copy artifacts with everything they need into another store, made if absent."""
        import os

        other = Store.open(destination)
        with locked(self.root, exclusive=False), other.transaction() as transaction:
            closure = walk(digests, self.read_unlocked, self.has)
            for digest in closure.kinds.keys() - other.has_many(closure.kinds):
                fd = os.open(object_path(self.root, digest), os.O_RDONLY | os.O_CLOEXEC)
                try:
                    transaction.adopt(fd, 0, os.fstat(fd).st_size, digest)
                finally:
                    os.close(fd)
            transaction.publish_objects()
            for entry in reversed(self.artifacts()):
                if entry.digest in closure.kinds:
                    artifacts.list_artifact(other.root, entry.digest, entry.kind, entry.parents)

    def export(self, digests: Sequence[Digest], path: Path, progress: Progress | None = None) -> None:
        """Write artifacts with everything they need as one file."""
        from kerncap_stages.store.archive import export

        with locked(self.root, exclusive=False):
            export(self, digests, path, progress)

    def import_(self, path: Path, progress: Progress | None = None) -> list[Digest]:
        """Add what an archive holds; returns the artifacts that were exported into it."""
        from kerncap_stages.store.archive import import_

        return import_(self, path, progress)
