"""What earlier runs found: verdicts, of kc-validate too, and times."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from kerncap_stages.digest import Digest, FileRef
from kerncap_stages.errors import ArtifactError
from kerncap_stages.manifests import dump, load_as, open_view
from kerncap_stages.manifests.evaluation import Evaluation, MeasuredTime
from kerncap_stages.manifests.validation import Validation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kerncap_stages.replay.variant_shape import VariantShape
    from kerncap_stages.store import Store
    from kerncap_stages.validate.request import Request

_MAX_EVALUATIONS = 8  # the newest; of older ones times are measured again


@dataclass(frozen=True)
class KnownVerdict:
    """A verdict in the store."""

    digest: Digest
    passed: bool
    reasons: tuple[str, ...]
    code: Digest | None


def make_request(request: Request, code: bytes, shape: VariantShape | None) -> Request:
    """Make the request for a variant from the one of its capture: the same that kc-validate makes."""
    return replace(request, code=code, shape=shape)


def find_verdict(store: Store, request: Request) -> KnownVerdict | None:
    """Find the verdict on a request that an earlier run, or kc-validate, left."""
    digest = store.actions.get(request.key)
    if digest is None:
        return None
    try:
        with open_view(store, digest) as made:
            code = None if made.variant is None else FileRef(made.variant.payload).digest
            return KnownVerdict(digest, bool(made.passed), tuple(map(str, made.reasons)), code)
    except ArtifactError:
        return None


def publish_as_wrong(store: Store, verdict: Digest, reasons: Sequence[str]) -> Digest:
    """Publish the verdict on a variant that is right but for a timed run, as one that is wrong.

    reasons: all of them, those of the timed run first. kc-validate finds it, too, once it is remembered.
    """
    made = load_as(store, verdict, Validation)
    changed = Validation(**{**dict(made), "passed": False, "reasons": tuple(reasons)})
    with store.begin_transaction() as transaction:
        return transaction.publish(dump(changed), "validation", [made.capture.digest])


class KnownTimes:
    """Times that earlier evaluations measured on this machine."""

    def __init__(self, store: Store, captures: Sequence[Digest], machine: str) -> None:
        """Read the newest evaluations of these captures."""
        self._times: dict[tuple[str, str, str], MeasuredTime] = {}
        entries = [each for each in store.list_artifacts("evaluation") if set(captures) & set(each.parents)]
        for entry in reversed(entries[:_MAX_EVALUATIONS]):
            try:
                made = load_as(store, entry.digest, Evaluation)
            except ArtifactError:
                continue
            if made.machine == machine:
                self._take(made)

    def find(self, capture: Digest, code: Digest, shape: VariantShape | None) -> MeasuredTime | None:
        """Return the time of a code object, in this launch, for a capture."""
        return self._times.get((capture, code, _name_shape(None if shape is None else asdict(shape))))

    def _take(self, made: Evaluation) -> None:
        for variant in made.variants:
            if variant.code_digest is None:
                continue
            shape = None if variant.launch is None else variant.launch.model_dump(mode="json")
            for case, result in zip(made.cases, variant.cases, strict=False):
                if result.time is not None:
                    key = (case.capture.digest, variant.code_digest, _name_shape(shape))
                    self._times[key] = result.time


def _name_shape(shape: Mapping[str, object] | None) -> str:
    return json.dumps(shape, sort_keys=True)
