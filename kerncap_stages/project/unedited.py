"""Whether what is edited began as the captured instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.reproducer import Reproducer
from kerncap_stages.manifests.source import Source
from kerncap_stages.project.artifacts import source_of

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.source import Unedited
    from kerncap_stages.store import Store


def unedited_of(store: Store, capture: Digest) -> Unedited | None:
    """Whether what is edited for a capture began as the captured instructions: the newest project's word.

    Where there is no project, that of the source that was found; None where there is none either.
    """
    found = source_of(store, capture)
    for entry in store.artifacts("reproducer"):
        if capture in entry.parents or found in entry.parents:
            kernels = load_as(store, entry.digest, Reproducer).kernels
            told = next((kernel.unedited for kernel in kernels if kernel.capture.digest == capture), None)
            if told is not None:
                return told
    return None if found is None else load_as(store, found, Source).unedited
