"""Reads manifests without importing their models, for stages that find their result in the store.

Importing the models takes longer than all the rest of that stage. A view checks only a manifest's kind and
version. Code that writes files or runs programs from a manifest therefore loads the model instead. A manifest
in a store may be malformed, so views are read in a ``with open_view(...)`` block.
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
    """The members of a manifest as attributes with the model's names. Enums and references are plain text."""

    __slots__ = ("_members",)

    def __init__(self, members: dict[str, Any]) -> None:
        self._members = members

    def __getattr__(self, name: str) -> Any:
        """Return a member; JSON objects in it become views, at any depth."""
        try:
            return _wrap(self._members[name])
        except KeyError:
            raise AttributeError(name) from None

    def leave_out(self, names: set[str]) -> dict[str, Any]:
        """Return all members but these, as plain JSON values."""
        return {name: value for name, value in self._members.items() if name not in names}


@contextmanager
def open_view(store: ReadsObjects, digest: Digest) -> Iterator[View]:
    """Read the manifest with this digest from a store, for a ``with`` block; its bytes are verified.

    Raises ManifestUnreadable unless it is a manifest of a kind and version that this package reads. If the
    block fails, loads the model, which raises ManifestUnreadable with the fault if the manifest is malformed.
    """
    try:
        yield View(read_members(store.get(digest), digest.short))
    except (AttributeError, LookupError, TypeError, ValueError):
        load(store, digest)
        raise


def _wrap(value: Any) -> Any:
    if isinstance(value, dict):
        return View(value)
    return [_wrap(each) for each in value] if isinstance(value, list) else value
