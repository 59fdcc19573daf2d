"""What a stage made of the same request before: the action cache, asked before anything heavy is imported.

A stage computes the key of its request from digests and raw JSON, by one function, whether it comes to work
or not. Where the answer is known it reads the manifest as a view and returns, little later than ``--help``.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kerncap_stages import __version__
from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests.codec import load_as
from kerncap_stages.manifests.view import View, read_view

if TYPE_CHECKING:
    from kerncap_stages.manifests.base import Manifest
    from kerncap_stages.store import Store

_Kind = TypeVar("_Kind", bound="Manifest")


class Remembered(NamedTuple):
    """An artifact that was made before; ``made``: its manifest."""

    digest: Digest
    made: View


def request_key(stage: str, **request: object) -> Digest:
    """The name of a request in the action cache: all that the answer depends on, and this version."""
    # In ASCII: a path that is not UTF-8 has a key too.
    text = json.dumps({"stage": stage, "version": __version__, **request}, sort_keys=True, allow_nan=False)
    return Digest(hashlib.sha256(text.encode("ascii")).hexdigest())


def remembered(store: Store, key: Digest) -> Remembered | None:
    """What was made of a request; None where that is not known, not listed any more, or cannot be read."""
    digest = store.actions.get(key)
    if digest is None:
        return None
    try:
        return Remembered(digest, read_view(store, digest))
    except ArtifactError:
        return None


def remembered_as(store: Store, key: Digest, model: type[_Kind]) -> tuple[Digest, _Kind] | None:
    """The same with its model, for whoever works on with it."""
    digest = store.actions.get(key)
    if digest is None:
        return None
    try:
        return digest, load_as(store, digest, model)
    except ArtifactError:
        return None
