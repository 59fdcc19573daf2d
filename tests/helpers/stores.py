"""Making stores and small artifacts for tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from kerncap_stages.manifests import SCHEMA_VERSIONS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    from kerncap_stages.digest import Digest
    from kerncap_stages.store import Store


def random_bytes(size_bytes: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, size_bytes, np.uint8)


def manifest(kind: str = "capture", **content: Any) -> bytes:
    """A canonical manifest; the store follows its references and knows nothing else of it."""
    text = json.dumps(
        {"kind": kind, "schema_version": SCHEMA_VERSIONS.get(kind, 1), **content},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
    )
    return text.encode() + b"\n"


def publish_memory(store: Store, memory: npt.NDArray[np.uint8], **content: Any) -> tuple[Digest, Digest]:
    """Publish an artifact with one piece of memory; returns (artifact, memory)."""
    with store.begin_transaction() as transaction:
        digest = transaction.put_memory(memory)
        return transaction.publish(manifest(memory=f"memory:{digest}", **content), "capture", []), digest


def publish(store: Store, kind: str = "capture", parents: Sequence[Digest] = (), **content: Any) -> Digest:
    """Publish a manifest without memory; returns its digest."""
    with store.begin_transaction() as transaction:
        content["parents"] = [f"manifest:{parent}" for parent in parents]
        return transaction.publish(manifest(kind, **content), kind, parents)


def object_file(store: Store, digest: str) -> Path:
    return store.root / "objects" / digest[:2] / digest
