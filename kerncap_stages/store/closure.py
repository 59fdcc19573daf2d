"""What an artifact consists of: every object that can be reached from its manifest."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from kerncap_stages import _native
from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactError, DigestMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# A whole JSON string in a canonical manifest, not the end of one: a quote inside a string has a backslash
# before it. Digests without a prefix are facts, not references.
_REFERENCE = re.compile(rb'"(?<!\\")(manifest|memory|file):([0-9a-f]{64})"')

# docs/store.md, "Objects": what a chunk list may have, and a manifest.
MOST_LIST_BYTES = 256 << 20
MOST_MANIFEST_BYTES = 64 << 20
# Of chunk lists that stay parsed, which takes several times as much.
_MOST_KEPT_BYTES = 8 << 20


@dataclass
class Closure:
    """Objects by kind: ``manifest``, ``memory``, ``chunk`` or ``file``; ``missing``: not there.

    One object may be of several kinds, as a manifest that was also put as a file: then it is what leads on.
    followed: (kind, digest) of manifests and chunk lists whose references are in here too.
    untraced: missing manifests and chunk lists, so that what they refer to is unknown.
    """

    kinds: dict[Digest, str] = field(default_factory=dict)
    followed: set[tuple[str, Digest]] = field(default_factory=set)
    missing: dict[Digest, str] = field(default_factory=dict)
    untraced: dict[Digest, str] = field(default_factory=dict)
    unreadable: dict[Digest, str] = field(default_factory=dict)  # there, but what they refer to is unknown

    def __len__(self) -> int:
        """How many objects there are."""
        return len(self.kinds)

    def manifests(self) -> set[Digest]:
        """Those that are in here with what they refer to: a file that holds the same bytes is none."""
        return {digest for digest, kind in self.kinds.items() if kind == "manifest"}


def references(manifest: bytes) -> list[tuple[str, Digest]]:
    """(kind, digest) of everything that a manifest points at."""
    return [(match[1].decode(), _digest(match[2].decode())) for match in _REFERENCE.finditer(manifest)]


def parse_chunk_list(payload: bytes, digest: Digest) -> tuple[int, int, tuple[Digest | None, ...]]:
    """(size in bytes, chunk size in bytes, chunks) of a piece of memory; None is a chunk of zeros.

    Raises DigestMismatch if it is not a chunk list.
    """
    parse = _parse if len(payload) <= _MOST_KEPT_BYTES else _parse.__wrapped__
    try:
        return parse(payload)
    except DigestMismatch as error:
        raise DigestMismatch(f"object {digest}: {error}", hint=error.hint) from error


# The states of one region are compared, described and published by turns: 20 ms each time, of 30 GiB.
@lru_cache(maxsize=4)
def _parse(payload: bytes) -> tuple[int, int, tuple[Digest | None, ...]]:
    size_bytes, chunk_bytes, chunks = _native.parse_chunk_list(payload)
    return size_bytes, chunk_bytes, tuple(None if chunk is None else _digest(chunk) for chunk in chunks)


def walk(
    roots: Iterable[Digest],
    read: Callable[[Digest], bytes],
    absent: Callable[[list[str]], list[str]],
    *,
    closure: Closure | None = None,
    parents: bool = True,
) -> Closure:
    """Everything below ``roots``; goes on with ``closure`` if that is given.

    read: the payload of a manifest or a chunk list, verified.
    absent: those of many objects that are not there.
    Without ``parents`` manifests that others point at are not followed.
    """
    closure = closure or Closure()
    stack: list[tuple[str, Digest]] = [("manifest", root) for root in roots]
    top = {root for _, root in stack}
    leaves: list[Digest] = []
    while stack:
        kind, digest = stack.pop()
        if kind == "file":
            if digest not in closure.kinds:
                closure.kinds[digest] = kind
                leaves.append(digest)
            continue
        # That it is known is not enough: as another kind nobody has looked at what it refers to.
        if (kind, digest) in closure.followed or digest in closure.untraced or digest in closure.unreadable:
            continue
        if kind == "manifest" and not parents and digest not in top:
            continue
        if absent([digest]):
            closure.missing[digest] = closure.untraced[digest] = f"object {digest} is missing"
            continue
        try:
            payload = read(digest)
            below = references(payload) if kind == "manifest" else []
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
        digest = _digest(text)
        closure.kinds.pop(digest, None)
        closure.missing[digest] = f"object {digest} is missing"
    return closure


def _digest(text: str) -> Digest:
    """A digest that a pattern has matched already: matching 100,000 again takes a third of a second."""
    return str.__new__(Digest, text)
