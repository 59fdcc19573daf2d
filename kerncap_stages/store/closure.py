"""What an artifact consists of: every object that can be reached from its manifest."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactError, DigestMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# A whole JSON string in a canonical manifest. Digests without a prefix are facts, not references.
_REFERENCE = re.compile(rb'"(manifest|memory|file):([0-9a-f]{64})"')


@dataclass
class Closure:
    """Objects by kind: ``manifest``, ``memory``, ``chunk``, ``file``; ``missing``: reached but not there."""

    kinds: dict[Digest, str] = field(default_factory=dict)
    missing: dict[Digest, str] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many objects there are."""
        return len(self.kinds)


def parse_chunk_list(payload: bytes, digest: Digest) -> tuple[int, int, list[Digest | None]]:
    """(size in bytes, chunk size in bytes, digests) of a memory object.

    Raises DigestMismatch if it is not a chunk list whose parts fit together.
    """
    try:
        content = json.loads(payload)
        if set(content) != {"chunk_size_bytes", "chunks", "kind", "schema_version", "size_bytes"}:
            raise ValueError("unknown or missing keys")
        if content["kind"] != "memory" or content["schema_version"] != 1:
            raise ValueError("not a chunk list of version 1")
        size, chunk = content["size_bytes"], content["chunk_size_bytes"]
        if not (type(size) is type(chunk) is int and size >= 0 and chunk > 0):
            raise ValueError("sizes are not positive whole numbers")
        chunks = [None if each is None else Digest(each) for each in content["chunks"]]
        if len(chunks) != -(-size // chunk):
            raise ValueError("the number of chunks does not fit the size")
    except (ValueError, TypeError, RecursionError) as error:
        raise DigestMismatch(
            f"object {digest.short} is not a chunk list: {error}", hint="make the artifact again"
        ) from error
    return size, chunk, chunks


def references(manifest: bytes) -> Iterable[tuple[str, Digest]]:
    """(kind, digest) of everything that a manifest points at."""
    return [(match[1].decode(), Digest(match[2].decode())) for match in _REFERENCE.finditer(manifest)]


def walk(
    roots: Iterable[Digest],
    read: Callable[[Digest], bytes],
    has: Callable[[Digest], bool],
    *,
    parents: bool = True,
) -> Closure:
    """Everything below ``roots``. Unreadable manifests and chunk lists count as missing, with the reason.

    Without ``parents`` manifests that others point at are not followed.
    """
    closure = Closure()
    stack: list[tuple[str, Digest]] = [("manifest", root) for root in roots]
    top = {root for _, root in stack}
    while stack:
        kind, digest = stack.pop()
        if digest in closure.kinds or digest in closure.missing:
            continue
        if kind == "manifest" and not parents and digest not in top:
            continue
        if kind in ("chunk", "file"):
            if has(digest):
                closure.kinds[digest] = kind
            else:
                closure.missing[digest] = "missing"
            continue
        try:
            payload = read(digest)
            if kind == "memory":
                below: Iterable[tuple[str, Digest]] = [
                    ("chunk", chunk) for chunk in parse_chunk_list(payload, digest)[2] if chunk is not None
                ]
            else:
                below = references(payload)
        except ArtifactError as error:
            closure.missing[digest] = str(error)
            continue
        closure.kinds[digest] = kind
        stack.extend(below)
    return closure
