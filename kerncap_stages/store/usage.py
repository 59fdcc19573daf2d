"""The room that artifacts take and share: every artifact is walked once, and every object looked at once."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.errors import ArtifactError
from kerncap_stages.store.closure import MOST_LIST_BYTES, references, walk
from kerncap_stages.store.objects import stored_objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kerncap_stages.digest import Digest
    from kerncap_stages.store.store import Store


_LEAST_READ_BYTES = 8 << 10  # a short object costs as much time as so many bytes of a long one


class _TooMuchError(Exception):
    pass


@dataclass(frozen=True)
class Usage:
    """Bytes of payloads as a reader sees them, of files on disk, and of these what others use too."""

    objects: int
    logical_bytes: int
    stored_bytes: int
    shared_bytes: int


def usage_of(store: Store, digest: Digest | None = None) -> Usage:
    """Room that one artifact takes with its parents, or the whole store; what is shared is not asked."""
    objects = list(stored_objects(store.root)[0] if digest is None else store.closure(digest).kinds)
    stored, logical = store.folder.native.total_sizes(objects)
    return Usage(len(objects), logical, stored, 0)


def usage_beside(
    store: Store, digest: Digest, others: Iterable[Digest], most_read_bytes: int
) -> tuple[Usage, int]:
    """Room that an artifact takes with its parents, and how many of ``others`` it was compared with.

    Their manifests and chunk lists are read until ``most_read_bytes`` of them have been: what is shared is a
    lower bound if not all were.
    """
    with store.folder.shared():
        census = _Census(store)
        compared = set()
        for other in others:
            most_read_bytes = census.add_user_within(other, most_read_bytes)
            if most_read_bytes < 0:
                break
            compared.add(other)
        return census.usage(digest, compared), len(compared)


def usage_of_each(store: Store, digests: Sequence[Digest]) -> list[Usage]:
    """Room that each artifact takes with its parents.

    Shared is what listed artifacts use that the artifact was not made from.
    """
    with store.folder.shared():
        census = _Census(store)
        listed = {entry.digest for entry in store.artifacts()}
        for digest in listed:
            census.add_user(digest)
        return [census.usage(digest, listed) for digest in digests]


class _Census:
    """Objects by number: an artifact's own are an array, not a set of strings."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._numbers: dict[Digest, int] = {}
        self._digests: list[Digest] = []
        self._sizes: dict[int, tuple[int, int]] = {}  # (stored, payload) in bytes, of those asked for
        self._users: list[int] = []  # how many listed artifacts hold it themselves
        self._own: dict[Digest, array[int]] = {}

    def add_user(self, digest: Digest) -> None:
        for number in self._own_objects(digest):
            self._users[number] += 1

    def add_user_within(self, digest: Digest, most_read_bytes: int) -> int:
        """The same, unless it takes more reading; returns how much is left, negative if nothing."""
        left = most_read_bytes

        def read(each: Digest) -> bytes:
            nonlocal left
            left -= max(self._store.declared_size(each), _LEAST_READ_BYTES)
            if left < 0:
                raise _TooMuchError
            return self._store.folder.native.read(each, MOST_LIST_BYTES, True)

        if digest not in self._own:
            try:
                kinds = walk([digest], read, self._store.folder.native.absent, parents=False).kinds
            except _TooMuchError:
                return -1
            self._own[digest] = array("L", [self._number(each) for each in kinds])
        for number in self._own[digest]:
            self._users[number] += 1
        return left

    def usage(self, digest: Digest, listed: set[Digest]) -> Usage:
        made_from = list(self._with_parents(digest))
        objects: set[int] = set()
        users: dict[int, int] = {}  # of those that it was made from
        for each in made_from:
            objects.update(self._own_objects(each))
            if each in listed:
                for number in self._own_objects(each):
                    users[number] = users.get(number, 0) + 1
        sizes = {number: self._size(number) for number in objects}
        return Usage(
            objects=len(objects),
            logical_bytes=sum(payload for _, payload in sizes.values()),
            stored_bytes=sum(stored for stored, _ in sizes.values()),
            shared_bytes=sum(
                stored for number, (stored, _) in sizes.items() if self._users[number] > users.get(number, 0)
            ),
        )

    def _own_objects(self, digest: Digest) -> array[int]:
        if digest not in self._own:
            kinds = self._store.walk([digest], parents=False).kinds
            self._own[digest] = array("L", [self._number(each) for each in kinds])
        return self._own[digest]

    def _number(self, digest: Digest) -> int:
        number = self._numbers.setdefault(digest, len(self._numbers))
        if number == len(self._digests):
            self._digests.append(digest)
            self._users.append(0)
        return number

    def _size(self, number: int) -> tuple[int, int]:
        if number not in self._sizes:
            self._sizes[number] = self._store.folder.native.total_sizes([self._digests[number]])
        return self._sizes[number]

    def _with_parents(self, digest: Digest) -> Iterator[Digest]:
        """The artifact and every manifest that it leads to, each once."""
        seen = {digest}
        stack = [digest]
        while stack:
            digest = stack.pop()
            yield digest
            try:
                below = references(self._store.folder.native.read(digest, MOST_LIST_BYTES, True))
            except ArtifactError:
                continue  # what it leads to is not known
            parents = {parent for kind, parent in below if kind == "manifest"} - seen
            seen |= parents
            stack.extend(parents)
