"""Finds the objects that an artifact consists of: all that can be reached from its manifest."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from kerncap_stages import _native
from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactError, DigestMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable

# Matches a complete JSON string, not the end of one: a quote inside a string has a backslash before it.
# Digests without a prefix are not references.
_REFERENCE = re.compile(rb'"(?<!\\")(manifest|memory|file|kept):([0-9a-f]{64})"')

# The largest chunk list and the largest manifest: docs/store.md, "Objects".
MAX_LIST_BYTES = 256 << 20
MAX_MANIFEST_BYTES = 64 << 20
# Larger chunk lists are not kept parsed, which takes several times as much memory.
_MAX_KEPT_BYTES = 8 << 20


@dataclass
class Closure:
    """Objects with their kinds: ``manifest``, ``memory``, ``chunk`` or ``file``.

    An object may have several kinds, such as a manifest that was also stored as a file. Then it has the kind
    that has references.
    followed: (kind, digest) of manifests and chunk lists whose references are in the closure, too.
    missing: objects that do not exist, with a message. untraced: those of them that are manifests and chunk
    lists, so that it is not known what they refer to.
    """

    kinds: dict[Digest, str] = field(default_factory=dict)
    followed: set[tuple[str, Digest]] = field(default_factory=set)
    missing: dict[Digest, str] = field(default_factory=dict)
    untraced: dict[Digest, str] = field(default_factory=dict)
    unreadable: dict[Digest, str] = field(default_factory=dict)  # exist, but their references are unknown
    optional: set[Digest] = field(default_factory=set)  # memories that a store may lack, and that were met

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self.kinds)

    @property
    def manifests(self) -> set[Digest]:
        """The manifests whose references are followed, without those that are here as files only."""
        return {digest for digest, kind in self.kinds.items() if kind == "manifest"}


def find_references(manifest: bytes) -> list[tuple[str, Digest]]:
    """Return (kind, digest) of all references in a manifest."""
    return [(match[1].decode(), _trust_digest(match[2].decode())) for match in _REFERENCE.finditer(manifest)]


def parse_chunk_list(payload: bytes, digest: Digest) -> tuple[int, int, tuple[Digest | None, ...]]:
    """Return (size in bytes, chunk size in bytes, chunks) of a memory; None is a chunk of zeros.

    Raises DigestMismatch if it is not a chunk list.
    """
    parse = _parse if len(payload) <= _MAX_KEPT_BYTES else _parse.__wrapped__
    try:
        return parse(payload)
    except DigestMismatch as error:
        raise DigestMismatch(f"object {digest}: {error}", hint=error.hint) from error


# Validation compares, describes and publishes the states of one region in turn; parsing a large list takes
# long.
@lru_cache(maxsize=4)
def _parse(payload: bytes) -> tuple[int, int, tuple[Digest | None, ...]]:
    size_bytes, chunk_bytes, chunks = _native.parse_chunk_list(payload)
    return size_bytes, chunk_bytes, tuple(None if chunk is None else _trust_digest(chunk) for chunk in chunks)


def walk(
    roots: Iterable[Digest],
    read: Callable[[Digest], bytes],
    absent: Callable[[list[str]], list[str]],
    *,
    closure: Closure | None = None,
    parents: bool = True,
    kept: bool = True,
    damaged: Collection[Digest] = (),
) -> Closure:
    """Return all objects that can be reached from ``roots``; ``closure``: to be extended.

    read: returns the payload of a manifest or a chunk list, verified.
    absent: returns those of the given objects that do not exist.
    parents: also follow manifests that the roots refer to.
    kept: also add the memories that a store may lack, if all of them exist. damaged: objects that none of
    these memories may need.
    """
    closure = closure or Closure()
    stack: list[tuple[str, Digest]] = [("manifest", root) for root in roots]
    top = {root for _, root in stack}
    leaves: list[Digest] = []
    while stack:
        kind, digest = stack.pop()
        if kind == "kept":
            closure.optional.add(digest)
            continue
        if kind == "file":
            if digest not in closure.kinds:
                closure.kinds[digest] = kind
                leaves.append(digest)
            continue
        # Not just `in kinds`: an object that is known as another kind was not followed.
        if (kind, digest) in closure.followed or digest in closure.untraced or digest in closure.unreadable:
            continue
        if kind == "manifest" and not parents and digest not in top:
            continue
        if absent([digest]):
            closure.missing[digest] = closure.untraced[digest] = f"object {digest} is missing"
            continue
        try:
            payload = read(digest)
            below = find_references(payload) if kind == "manifest" else []
            chunks = parse_chunk_list(payload, digest)[2] if kind == "memory" else ()
        except ArtifactError as error:
            closure.unreadable[digest] = str(error)
            continue
        closure.followed.add((kind, digest))
        if closure.kinds.get(digest) != "manifest":
            closure.kinds[digest] = kind
        stack.extend(below)
        for chunk in chunks:
            if chunk is not None and chunk not in closure.kinds:
                closure.kinds[chunk] = "chunk"
                leaves.append(chunk)
    for text in absent(list(leaves)):
        digest = _trust_digest(text)
        closure.kinds.pop(digest, None)
        closure.missing[digest] = f"object {digest} is missing"
    if kept:
        _add_kept(closure, read, absent, damaged)
    return closure


def find_dependents(
    roots: Iterable[Digest], targets: Collection[Digest], read: Callable[[Digest], bytes]
) -> list[Digest]:
    """Return those of ``roots`` that are among ``targets``, or refer to one, through others too.

    Each manifest is read once; one that cannot be read refers to nothing. read: as for ``walk``.
    """
    depends: dict[Digest, bool] = dict.fromkeys(targets, True)
    below: dict[Digest, list[Digest]] = {}
    found = []
    for root in roots:
        stack = [root]
        while stack:
            digest = stack[-1]
            if digest not in depends and digest not in below:
                try:
                    references = find_references(read(digest))
                except ArtifactError:
                    references = []
                below[digest] = [each for kind, each in references if kind == "manifest"]
                stack.extend(each for each in below[digest] if each not in depends and each not in below)
                continue
            stack.pop()
            if digest not in depends:
                depends[digest] = any(depends.get(each, False) for each in below[digest])
        if depends[root]:
            found.append(root)
    return found


def _add_kept(
    closure: Closure,
    read: Callable[[Digest], bytes],
    absent: Callable[[list[str]], list[str]],
    damaged: Collection[Digest],
) -> None:
    """Add the optional memories that can be read, lack no chunk and have none that is damaged."""
    for digest in closure.optional:
        if ("memory", digest) in closure.followed or digest in damaged:
            continue
        chunks = find_whole_memory(digest, read, absent, closure.kinds)
        if chunks is not None and chunks.isdisjoint(damaged):
            closure.followed.add(("memory", digest))
            closure.kinds.setdefault(digest, "memory")
            closure.kinds.update(dict.fromkeys(chunks, "chunk"))


def find_whole_memory(
    digest: Digest,
    read: Callable[[Digest], bytes],
    absent: Callable[[list[str]], list[str]],
    known: Container[Digest] = (),
) -> set[Digest] | None:
    """Return the chunks of a memory, but for known ones; None if it cannot be read or lacks one of these.

    read, absent: as for ``walk``.
    """
    if absent([digest]):
        return None
    try:
        chunks = parse_chunk_list(read(digest), digest)[2]
    except ArtifactError:
        return None
    new = {chunk for chunk in chunks if chunk is not None and chunk not in known}
    return None if absent([*new]) else new


def _trust_digest(text: str) -> Digest:
    """Make a digest of a text that was checked already: checking again is slow for very many chunks."""
    return str.__new__(Digest, text)
