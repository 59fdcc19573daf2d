"""Finds what a stage made from the same request before, in the action cache.

A stage looks here before it imports anything slow. It computes the key of its request from digests and raw
JSON. If the result is known, it reads the manifest as a view and returns, almost as fast as ``--help``.
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
    """An artifact that was made before; ``made`` is its manifest."""

    digest: Digest
    made: View


def make_request_key(stage: str, **request: object) -> Digest:
    """Make the key of a request from all that its result depends on, with the version of this package."""
    # ASCII escapes, so that a path that is not UTF-8 has a key, too.
    text = json.dumps({"stage": stage, "version": __version__, **request}, sort_keys=True, allow_nan=False)
    return Digest(hashlib.sha256(text.encode("ascii")).hexdigest())


def find_remembered(
    store: Store, key: Digest, still: Callable[[View], bool] | None = None
) -> Remembered | None:
    """Return what was made from a request before, and make it the latest artifact, as if it were made now.

    None if nothing is known, it is not listed any more or cannot be read, or ``still`` says that it is
    outdated.
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


def load_remembered(
    store: Store, key: Digest, model: type[_Kind], still: Callable[[_Kind], bool] | None = None
) -> tuple[Digest, _Kind] | None:
    """Do the same as ``find_remembered``, but return the model of the manifest."""
    known = load_known(store, key, model)
    if known is None or (still is not None and not still(known[1])):
        return None
    _answer(store, known[0])
    return known


def load_known(store: Store, key: Digest, model: type[_Kind]) -> tuple[Digest, _Kind] | None:
    """Return what was made from a request before, but do not make it the latest: it is a part of a result."""
    digest = store.actions.get(key)
    if digest is None:
        return None
    try:
        return digest, load_as(store, digest, model)
    except ArtifactError:
        return None


def _answer(store: Store, digest: Digest) -> None:
    # A read-only store still gives results; its list just cannot change.
    with contextlib.suppress(StoreError):
        store.list_again(digest)
