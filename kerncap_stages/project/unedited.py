"""Tells whether the source that the user edits compiled to the captured instructions before any edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.reproducer import Reproducer
from kerncap_stages.manifests.source import Source
from kerncap_stages.project.artifacts import find_source_of

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.source import Unedited
    from kerncap_stages.store import Store


def find_unedited(store: Store, capture: Digest) -> Unedited | None:
    """Return whether the unedited source of a capture compiles to the captured instructions.

    The newest project of the capture says it, else the source that was found for it; None without either.
    """
    found = find_source_of(store, capture)
    for entry in store.list_artifacts("reproducer"):
        if capture in entry.parents or found in entry.parents:
            kernels = load_as(store, entry.digest, Reproducer).kernels
            unedited = next((kernel.unedited for kernel in kernels if kernel.capture.digest == capture), None)
            if unedited is not None:
                return unedited
    return None if found is None else load_as(store, found, Source).unedited
