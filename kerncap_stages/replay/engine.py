"""Replays a capture and publishes the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.errors import KerncapError, UsageError
from kerncap_stages.manifests import dump, load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.project.unedited import find_unedited
from kerncap_stages.replay.record import make_replay_manifest
from kerncap_stages.replay.runner import replay_capture
from kerncap_stages.replay.variant import WHAT_TO_GIVE

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.replay import Replay
    from kerncap_stages.replay.options import ReplayOptions
    from kerncap_stages.replay.report import ReplayResult
    from kerncap_stages.store import Store


def run_replay(store: Store, digest: Digest, options: ReplayOptions) -> tuple[Digest, Replay, ReplayResult]:
    """Replay a capture and publish the result, which may be a fault, a crash or a time-out.

    Raises UsageError, Refused, DeviceError or ArtifactError if it cannot be run.
    """
    capture = load_as(store, digest, Capture)
    options = options.resolve(capture.launch)
    if options.variant is not None and not options.variant.is_file():
        raise UsageError(
            f"no such code object: {options.variant}",
            hint=f"give {WHAT_TO_GIVE[capture.environment.backend]}",
        )
    try:
        result = replay_capture(store, capture, options.make_request(capture))
    except KerncapError as error:
        raise type(error)(f"capture {digest.short}: {error}", hint=error.hint) from error
    unedited = find_unedited(store, digest) if options.interleave else None
    with store.begin_transaction() as transaction:
        manifest = make_replay_manifest(transaction, digest, capture, options, result, unedited)
        made = transaction.publish(dump(manifest), "replay", [digest])
    return made, manifest, result
