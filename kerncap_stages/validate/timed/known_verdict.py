"""Finds the newest verdict on a code object that is timed. It does not import the models."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kerncap_stages.digest import FileRef
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests import open_view
from kerncap_stages.store.remembered import Remembered

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.replay import LaunchShape
    from kerncap_stages.store import Store


def find_known_verdict(
    store: Store, capture: Digest, code: Digest, shape: LaunchShape | None
) -> Remembered | None:
    """Find the newest verdict on a code object in this launch; None if the store has none.

    code: SHA-256 of the code for the captured GPU. shape: of the launch; None: as captured.
    """
    wanted = None if shape is None else shape.model_dump(mode="json")
    for entry in store.list_artifacts("validation"):
        if capture not in entry.parents:
            continue
        # A damaged verdict says nothing.
        with suppress(ArtifactError), open_view(store, entry.digest) as made:
            launched = None if made.variant_shape is None else made.variant_shape.leave_out(set())
            is_of_code = made.variant is not None and FileRef(made.variant.payload).digest == code
            if is_of_code and launched == wanted:  # it may be right in one launch and wrong in another
                return Remembered(entry.digest, made)
    return None
