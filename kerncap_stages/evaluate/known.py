"""What earlier runs found: verdicts, of kc-validate too, and times."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from kerncap_stages.digest import Digest, FileRef
from kerncap_stages.errors import ArtifactError
from kerncap_stages.evaluate.entries import Answer
from kerncap_stages.evaluate.leaders import choose_key
from kerncap_stages.manifests import dump, load_as, open_view
from kerncap_stages.manifests.evaluation import Evaluation, MeasuredTime, Outcome
from kerncap_stages.manifests.validation import Validation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kerncap_stages.evaluate.entries import Entry
    from kerncap_stages.evaluate.subject import OpenedSubject
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
    own_process: bool


def make_request(request: Request, entry: Entry, machine: str) -> Request:
    """Make the request for a variant from the one of its capture: the same that kc-validate makes there."""
    assert entry.code is not None
    return replace(request, code=entry.code.read_bytes(), shape=entry.shape, machine=machine)


def find_verdict(store: Store, request: Request) -> KnownVerdict | None:
    """Find the verdict on a request that an earlier run, or kc-validate, left."""
    for is_own in (True, False):
        digest = store.actions.get(choose_key(request, own_process=is_own))
        if digest is None:
            continue
        with contextlib.suppress(ArtifactError), open_view(store, digest) as made:
            code = None if made.variant is None else FileRef(made.variant.payload).digest
            return KnownVerdict(digest, bool(made.passed), tuple(map(str, made.reasons)), code, is_own)
    return None


def publish_as_wrong(store: Store, verdict: Digest, reasons: Sequence[str]) -> Digest:
    """Publish the verdict on a variant that is right but for a timed run, as one that is wrong.

    reasons: all of them, those of the timed run first. kc-validate finds it, too, once it is remembered.
    """
    made = load_as(store, verdict, Validation)
    changed = Validation(**{**dict(made), "passed": False, "reasons": tuple(reasons)})
    with store.begin_transaction() as transaction:
        return transaction.publish(dump(changed), "validation", [made.capture.digest])


class Known:
    """What earlier runs found on the machines of this evaluation."""

    def __init__(self, subject: OpenedSubject, *, fresh: bool) -> None:
        """``fresh``: use none of it."""
        self._subject = subject
        self._fresh = fresh
        self._machines: dict[str, None] = {}
        self._evaluations: list[Evaluation] | None = None
        self._times: dict[tuple[str, str, str, str], tuple[MeasuredTime, bool]] = {}

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines, in the order in which they came."""
        return tuple(self._machines)

    def add_machine(self, machine: str) -> bool:
        """Take one more machine into account; False if it is known.

        Machines that judged in one evaluation with it count, too: a rerun meets others of the same cluster.
        """
        if machine in self._machines:
            return False
        self._machines[machine] = None
        if self._evaluations is None:
            self._evaluations = [] if self._fresh else self._read_evaluations()
        for made in self._evaluations:
            found = _list_machines(made)
            if machine in found:
                self._machines.update(found)
        return True

    def find(self, entry: Entry, case: int) -> tuple[Answer | None, bool]:
        """Return what is known of a variant on a case, and whether that is all: a time may be missing."""
        if self._fresh or entry.code_digest is None:
            return None, False
        untimed = None
        for machine in self._machines:
            request = make_request(self._subject.requests[case], entry, machine)
            known = find_verdict(self._subject.subject.store, request)
            if known is None:
                continue
            outcome = Outcome.RIGHT if known.passed else Outcome.WRONG
            answer = Answer(
                outcome,
                known.digest,
                known.reasons,
                code=known.code,
                machine=machine,
                own_process=known.own_process,
            )
            if not known.passed:
                return answer, True
            shape = _name_shape(None if entry.shape is None else asdict(entry.shape))
            time = self._times.get((machine, request.capture, entry.code_digest, shape))
            if time is not None:
                taken, is_own = time
                return replace(answer, time=taken, own_process=answer.own_process and is_own), True
            untimed = untimed or answer
        return untimed, False

    def _read_evaluations(self) -> list[Evaluation]:
        """Read the newest evaluations of these captures, and the times in them; the newest times count."""
        store, captures = self._subject.subject.store, {*self._subject.subject.captures}
        entries = [each for each in store.list_artifacts("evaluation") if captures & {*each.parents}]
        found = []
        for entry in reversed(entries[:_MAX_EVALUATIONS]):
            with contextlib.suppress(ArtifactError):
                found.append(load_as(store, entry.digest, Evaluation))
                self._take_times(found[-1])
        return found

    def _take_times(self, made: Evaluation) -> None:
        for variant in made.variants:
            if variant.code_digest is None:
                continue
            shape = _name_shape(None if variant.launch is None else variant.launch.model_dump(mode="json"))
            for case, result in zip(made.cases, variant.cases, strict=False):
                if result.time is not None:
                    machine = result.machine or made.machine
                    self._times[machine, case.capture.digest, variant.code_digest, shape] = (
                        result.time,
                        result.own_process,
                    )


def _list_machines(made: Evaluation) -> dict[str, None]:
    others = (each.machine for variant in made.variants for each in variant.cases if each.machine is not None)
    return dict.fromkeys((made.machine, *others))


def _name_shape(shape: Mapping[str, object] | None) -> str:
    return json.dumps(shape, sort_keys=True)
