"""Manifests read without their models: for a stage that finds its work done and need only say so.

The models cost more time to import than such a stage has. A view checks a manifest's kind and version and
nothing else, so nothing is ever written or run by its word: whoever has to do so loads the model. A store may
hold what anybody wrote, so whoever reads a view of it does so in ``viewing``.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kerncap_stages.manifests.codec import load, read_members

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.codec import ReadsObjects


class View:
    """JSON members as attributes, named as in the model; values are plain: no enums, references as text."""

    __slots__ = ("_members",)

    def __init__(self, members: dict[str, Any]) -> None:
        self._members = members

    def __getattr__(self, name: str) -> Any:
        """A member; objects are views, at any depth."""
        try:
            return _viewed(self._members[name])
        except KeyError:
            raise AttributeError(name) from None

    def without(self, names: set[str]) -> dict[str, Any]:
        """All other members, as JSON has them."""
        return {name: value for name, value in self._members.items() if name not in names}


@contextmanager
def viewing(store: ReadsObjects, digest: Digest) -> Iterator[View]:
    """The manifest of that digest, read from a store and verified, for a ``with`` block.

    Raises ManifestUnreadable for anything but a manifest of a kind and version that we know. The same, in the
    model's words, where the block meets a member that is missing or not as it should be.
    """
    try:
        yield View(read_members(store.get(digest), digest.short))
    except (AttributeError, LookupError, TypeError, ValueError):
        load(store, digest)
        raise


def _viewed(value: Any) -> Any:
    if isinstance(value, dict):
        return View(value)
    return [_viewed(each) for each in value] if isinstance(value, list) else value
