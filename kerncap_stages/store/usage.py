"""Measures the space that artifacts take and share. Each artifact and each object is read once."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.errors import ArtifactError
from kerncap_stages.store.closure import MAX_LIST_BYTES, find_references, walk
from kerncap_stages.store.objects import list_stored_objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kerncap_stages.digest import Digest
    from kerncap_stages.store.store import Store


_MIN_READ_BYTES = 8 << 10  # reading a smaller object takes as long as reading this many bytes


class _TooMuchError(Exception):
    pass


@dataclass(frozen=True)
class Usage:
    """Bytes of payloads, bytes of their files on disk, and how many of these other artifacts use, too."""

    objects: int
    logical_bytes: int
    stored_bytes: int
    shared_bytes: int


def measure_usage(store: Store, digest: Digest | None = None) -> Usage:
    """Measure one artifact with its parents, or the whole store; shared bytes are not counted."""
    objects = list(list_stored_objects(store.root)[0] if digest is None else store.find_closure(digest).kinds)
    stored, logical = store.folder.native.total_sizes(objects)
    return Usage(len(objects), logical, stored, 0)


def compare_usage(
    store: Store, digest: Digest, others: Iterable[Digest], max_read_bytes: int
) -> tuple[Usage, int]:
    """Measure an artifact with its parents; also returns how many of ``others`` it was compared with.

    Manifests and chunk lists of the others are read up to ``max_read_bytes``. If that is too little to
    compare with all, the shared bytes are a lower bound.
    """
    with store.folder.lock_shared():
        census = _Census(store)
        compared = set()
        for other in others:
            max_read_bytes = census.add_user_within(other, max_read_bytes)
            if max_read_bytes < 0:
                break
            compared.add(other)
        return census.measure(digest, compared), len(compared)


def measure_usage_of_each(store: Store, digests: Sequence[Digest]) -> list[Usage]:
    """Measure each artifact with its parents.

    Shared bytes are those that other listed artifacts use, without the artifact's own parents.
    """
    with store.folder.lock_shared():
        census = _Census(store)
        listed = {entry.digest for entry in store.list_artifacts()}
        for digest in listed:
            census.add_user(digest)
        return [census.measure(digest, listed) for digest in digests]


class _Census:
    """Counts the artifacts that use each object. Numbers stand for objects, to save memory."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._numbers: dict[Digest, int] = {}
        self._digests: list[Digest] = []
        self._sizes: dict[int, tuple[int, int]] = {}  # (stored, payload) in bytes, of those asked for
        self._users: list[int] = []  # how many listed artifacts hold it themselves
        self._own: dict[Digest, array[int]] = {}

    def add_user(self, digest: Digest) -> None:
        for number in self._find_own_objects(digest):
            self._users[number] += 1

    def add_user_within(self, digest: Digest, max_read_bytes: int) -> int:
        """Count the artifact as a user, unless that needs more reading than allowed.

        Returns how much is left to read; negative if the artifact was not counted.
        """
        left = max_read_bytes

        def read(each: Digest) -> bytes:
            nonlocal left
            left -= max(self._store.read_declared_size(each), _MIN_READ_BYTES)
            if left < 0:
                raise _TooMuchError
            return self._store.folder.native.read(each, MAX_LIST_BYTES, True)

        if digest not in self._own:
            try:
                kinds = walk([digest], read, self._store.folder.native.absent, parents=False).kinds
            except _TooMuchError:
                return -1
            self._own[digest] = array("L", [self._assign_number(each) for each in kinds])
        for number in self._own[digest]:
            self._users[number] += 1
        return left

    def measure(self, digest: Digest, listed: set[Digest]) -> Usage:
        made_from = list(self._walk_parents(digest))
        objects: set[int] = set()
        users: dict[int, int] = {}  # of the objects, counting only the artifact and its parents
        for each in made_from:
            objects.update(self._find_own_objects(each))
            if each in listed:
                for number in self._find_own_objects(each):
                    users[number] = users.get(number, 0) + 1
        sizes = {number: self._measure(number) for number in objects}
        return Usage(
            objects=len(objects),
            logical_bytes=sum(payload for _, payload in sizes.values()),
            stored_bytes=sum(stored for stored, _ in sizes.values()),
            shared_bytes=sum(
                stored for number, (stored, _) in sizes.items() if self._users[number] > users.get(number, 0)
            ),
        )

    def _find_own_objects(self, digest: Digest) -> array[int]:
        if digest not in self._own:
            kinds = self._store.walk([digest], parents=False).kinds
            self._own[digest] = array("L", [self._assign_number(each) for each in kinds])
        return self._own[digest]

    def _assign_number(self, digest: Digest) -> int:
        number = self._numbers.setdefault(digest, len(self._numbers))
        if number == len(self._digests):
            self._digests.append(digest)
            self._users.append(0)
        return number

    def _measure(self, number: int) -> tuple[int, int]:
        if number not in self._sizes:
            self._sizes[number] = self._store.folder.native.total_sizes([self._digests[number]])
        return self._sizes[number]

    def _walk_parents(self, digest: Digest) -> Iterator[Digest]:
        """Yield the artifact and all manifests that can be reached from it, each once."""
        seen = {digest}
        stack = [digest]
        while stack:
            digest = stack.pop()
            yield digest
            try:
                below = find_references(self._store.folder.native.read(digest, MAX_LIST_BYTES, True))
            except ArtifactError:
                continue  # its references are not known
            parents = {parent for kind, parent in below if kind == "manifest"} - seen
            seen |= parents
            stack.extend(parents)
