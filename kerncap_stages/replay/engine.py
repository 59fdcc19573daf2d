"""Replays a capture and publishes the result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.errors import KerncapError, UsageError
from kerncap_stages.machine.temporary import TemporaryFolder
from kerncap_stages.manifests import dump, load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.project.unedited import find_unedited
from kerncap_stages.replay.floor import find_floor, find_impossible
from kerncap_stages.replay.record import make_replay_manifest
from kerncap_stages.replay.runner import replay_capture
from kerncap_stages.replay.variant import WHAT_TO_GIVE
from kerncap_stages.replay.variant_shape import find_variant_shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.replay import Replay
    from kerncap_stages.replay.options import ReplayOptions
    from kerncap_stages.replay.report import ReplayResult, WrongRuns
    from kerncap_stages.store import Store

    # Of a capture's timed runs with a variant; None if all were right.
    Judges = Callable[[Store, Digest, Capture, Path, ReplayResult, Path], WrongRuns | None]
    # The least number of bytes that one of these runs changed.
    Counts = Callable[[Store, Digest, Capture, Path, ReplayResult, Path], int]


def run_replay(
    store: Store, digest: Digest, options: ReplayOptions, judge: Judges, count_changed: Counts
) -> tuple[Digest, Replay, ReplayResult]:
    """Replay a capture and publish the result, which may be a fault, a crash or a time-out.

    judge: called with the capture, the variant, the result and the folder of states if timed runs of a
    variant left other states than the golden one. If it finds a wrong one, the result has no times.
    count_changed: called with the same if the time of such runs lies below the floor of the golden state.

    Raises UsageError, Refused, DeviceError or ArtifactError if it cannot be run.
    """
    capture = load_as(store, digest, Capture)
    if options.variant is not None and not options.variant.is_file():
        raise UsageError(
            f"no such code object: {options.variant}",
            hint=f"give {WHAT_TO_GIVE[capture.environment.backend]}",
        )
    if options.variant is not None and not options.has_shape:
        options = replace(options, variant_shape=find_variant_shape(options.variant))
    options = options.resolve(capture.launch)
    try:
        with TemporaryFolder("states") as name:
            request = replace(options.make_request(capture), states_folder=Path(name))
            result = replay_capture(store, capture, request)
            # A launch of another shape does other work.
            floor = find_floor(capture, result.peaks) if request.compare else None
            if options.variant is not None:
                runs = (store, digest, capture, options.variant, result, Path(name))
                wrong = judge(*runs) if any(result.variant_states) else None
                if wrong is not None:
                    result = result.without_times(wrong)
                elif floor is not None:
                    floor, why = find_impossible(capture, result, lambda: count_changed(*runs))
                    result = result if why is None else result.without_times(impossible=why)
    except KerncapError as error:
        raise type(error)(f"capture {digest.short}: {error}", hint=error.hint) from error
    unedited = find_unedited(store, digest) if options.interleave else None
    with store.begin_transaction() as transaction:
        manifest = make_replay_manifest(transaction, digest, capture, options, result, floor, unedited)
        made = transaction.publish(dump(manifest), "replay", [digest])
    return made, manifest, result
