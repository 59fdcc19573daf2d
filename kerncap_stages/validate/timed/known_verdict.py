"""Finds the verdicts on a code object, the newest first. It does not import the models."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kerncap_stages.digest import FileRef
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests import View, open_view
from kerncap_stages.store.remembered import Remembered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.replay import LaunchShape
    from kerncap_stages.manifests.validation import Validation
    from kerncap_stages.store import Store


def find_known_verdict(
    store: Store, capture: Digest, code: Digest, shape: LaunchShape | View | None
) -> Remembered | None:
    """Find the newest verdict on a code object in this launch; None if the store has none.

    code: SHA-256 of the code for the captured GPU. shape: of the launch; None: as captured.
    """
    return next(list_known_verdicts(store, capture, code, shape), None)


def list_known_verdicts(
    store: Store, capture: Digest, code: Digest, shape: LaunchShape | View | None
) -> Iterator[Remembered]:
    """Yield the verdicts on a code object in this launch, the newest first."""
    wanted, name = _read_shape(shape), code.encode()
    for entry in store.list_artifacts("validation"):
        if capture not in entry.parents:
            continue
        found = None
        # There may be thousands of verdicts on other code, and parsing them would take most of the time.
        # A damaged verdict says nothing.
        with suppress(ArtifactError):
            if name not in store.get(entry.digest):
                continue
        with suppress(ArtifactError), open_view(store, entry.digest) as made:
            is_of_code = made.variant is not None and FileRef(made.variant.payload).digest == code
            # It may be right in one launch and wrong in another.
            if is_of_code and _read_shape(made.variant_shape) == wanted:
                found = Remembered(entry.digest, made)
        if found is not None:
            yield found


def list_earlier_verdicts(
    store: Store, capture: Digest, verdict: Digest, made: Validation | View
) -> Iterator[Remembered]:
    """Yield other verdicts on the code object of a verdict, in the same launch, the newest first."""
    if made.variant is not None:
        code = FileRef(made.variant.payload).digest
        for known in list_known_verdicts(store, capture, code, made.variant_shape):
            if known.digest != verdict:
                yield known


def _read_shape(shape: LaunchShape | View | None) -> dict[str, Any] | None:
    if shape is None:
        return None
    return shape.leave_out(set()) if isinstance(shape, View) else shape.model_dump(mode="json")
