"""Answers a request for a verdict: with that of an earlier run, or by judging now."""

from __future__ import annotations

from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, cast

from kerncap_stages.machine.one_thread import import_numpy
from kerncap_stages.manifests import load
from kerncap_stages.validate.replays.limits import MAX_BYTES_AT_ONCE, MAX_BYTES_KEPT
from kerncap_stages.validate.request import find_verdict, read_request

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.validation import Validation
    from kerncap_stages.project.folder import Project
    from kerncap_stages.store import Store
    from kerncap_stages.validate.request import JudgeSettings, Request


def run_validate(
    store: Store,
    capture_digest: Digest,
    variant: Path | None,
    settings: JudgeSettings,
    *,
    project: Project | None = None,
    fresh: bool = False,
) -> tuple[Digest, Validation]:
    """Judge a variant, or the captured kernel if there is none, and publish the verdict.

    project: whose variant it is, if the verdict shall name it.
    Unless ``fresh``, returns the verdict of an earlier run with the same capture, variant, origin, settings
    and machine.
    Raises an error if a replay cannot be run. A kernel that crashes or hangs gives a failed verdict.
    """
    request = read_request(store, capture_digest, variant, settings, project=project)
    known = None if fresh else find_verdict(store, request)
    if known is None:
        return judge_now(store, request, fresh=fresh)
    return known.digest, cast("Validation", load(store, known.digest))  # the key says what it is


def judge_now(store: Store, request: Request, *, fresh: bool) -> tuple[Digest, Validation]:
    """Judge, and publish the verdict. ``fresh``: use no replays that earlier validations kept.

    Unless ``fresh``, a verdict on the same variant of another origin is published again, with this origin.
    """
    if not fresh and store.actions.get(request.key) is not None:
        import_numpy()
        from kerncap_stages.validate.verdict import publish_with_origin

        if (known := publish_with_origin(store, request)) is not None:
            return known
    from kerncap_stages.replay.kept import VerdictReplayers

    with VerdictReplayers(request.backend, request.device_index, request.only_gpu) as standbys:
        # They start while Python imports the rest, which takes as long. Start as many as will run at once.
        several = request.code is not None and request.settings.perturb
        at_once = several and request.size_bytes <= MAX_BYTES_AT_ONCE
        if several and request.size_bytes <= MAX_BYTES_KEPT:
            standbys.keep(has_variant=True)
            standbys.keep(has_variant=False)
        else:
            standbys.start(2 if at_once else 1)
        if at_once and (fresh or store.actions.get(request.first_key) is None):
            standbys.start_for_later()
        import_numpy()
        if several:  # fresh values need it
            Thread(target=import_module, args=("numpy.random",), daemon=True).start()
        from kerncap_stages.validate.verdict import judge_and_publish

        return judge_and_publish(store, request, standbys, fresh=fresh)
