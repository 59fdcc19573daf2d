"""What a stage made of the same request before: the action cache, asked before anything heavy is imported.

A stage computes the key of its request from digests and raw JSON, by one function, whether it comes to work
or not. Where the answer is known it reads the manifest as a view and returns, little later than ``--help``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kerncap_stages import __version__
from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactError, StoreError
from kerncap_stages.manifests import View, load_as, open_view

if TYPE_CHECKING:
    from collections.abc import Callable

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


def remembered(store: Store, key: Digest, still: Callable[[View], bool] | None = None) -> Remembered | None:
    """What was made of a request, which is now the latest of its kind, as if it had been made again.

    None where that is not known, not listed any more, cannot be read, or is not ``still`` right.
    """
    digest = store.actions.get(key)
    if digest is None:
        return None
    try:
        with open_view(store, digest) as made:
            if still is not None and not still(made):
                return None
    except ArtifactError:
        return None
    _answer(store, digest)
    return Remembered(digest, made)


def remembered_as(
    store: Store, key: Digest, model: type[_Kind], still: Callable[[_Kind], bool] | None = None
) -> tuple[Digest, _Kind] | None:
    """The same with its model, for whoever works on with it."""
    known = known_as(store, key, model)
    if known is None or (still is not None and not still(known[1])):
        return None
    _answer(store, known[0])
    return known


def known_as(store: Store, key: Digest, model: type[_Kind]) -> tuple[Digest, _Kind] | None:
    """The same where it is no answer but a part of one: the list of artifacts stays as it is."""
    digest = store.actions.get(key)
    if digest is None:
        return None
    try:
        return digest, load_as(store, digest, model)
    except ArtifactError:
        return None


def _answer(store: Store, digest: Digest) -> None:
    # A store that may only be read still answers; its list cannot change.
    with contextlib.suppress(StoreError):
        store.list_again(digest)
