"""What the coordinator knows of each variant, from its name to its record in the manifest."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from kerncap_stages.digest import Digest, FileRef, ManifestRef
from kerncap_stages.evaluate.ranking import weigh_times
from kerncap_stages.manifests.base import to_os_text
from kerncap_stages.manifests.evaluation import (
    CaseResult,
    EvaluatedVariant,
    MeasuredTime,
    Outcome,
    OwnLaunch,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.evaluate.candidates import Candidate
    from kerncap_stages.manifests.evaluation import EvaluatedCase
    from kerncap_stages.replay.variant_shape import VariantShape


@dataclass(frozen=True)
class Answer:
    """What is known of a variant on one capture. ``outcome``: right, wrong, refused or unjudged.

    own_process: whether no other variant had run in the processes that judged and timed it.
    """

    outcome: Outcome
    verdict: Digest | None = None
    reasons: tuple[str, ...] = ()
    time: MeasuredTime | None = None
    code: Digest | None = None
    machine: str | None = None  # that judged it
    own_process: bool = True


@dataclass
class Entry:
    """One variant that the user named. ``number``: its place among them, from 0 on.

    code: a file of ours with its bytes. read_at: how many files were read before. Seeds that are chosen after
    that are unknown to it. twins: later entries with the same code and launch.
    """

    number: int
    candidate: Candidate
    source_digest: Digest | None = None
    code: Path | None = None
    code_digest: Digest | None = None
    shape: VariantShape | None = None
    read_at: int = 0
    answers: dict[int, Answer] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)
    losses: dict[int, int] = field(default_factory=dict)  # of nodes that were to judge it
    asked_again: set[int] = field(default_factory=set)  # cases, to be judged in processes of their own
    twins: list[Entry] = field(default_factory=list)
    same_as: int | None = None
    failed: Answer | None = None  # before it could be judged
    is_finished: bool = False

    @property
    def identity(self) -> tuple[Digest | None, VariantShape | None]:
        """Entries with the same one get the same verdicts."""
        return self.code_digest, self.shape

    def describe(self, cases: Sequence[EvaluatedCase], machine: str) -> EvaluatedVariant:
        """Return its record, without a rank. ``machine``: the evaluation's."""
        answers = [] if self.failed is not None else [self.answers[number] for number in range(len(cases))]
        outcome = self.failed.outcome if self.failed is not None else _combine(answers)
        # Reasons of the cases that decided the outcome come first.
        told = [self.failed] if self.failed else sorted(answers, key=lambda each: each.outcome is not outcome)
        reasons = tuple(dict.fromkeys(reason for each in told for reason in each.reasons))
        code = next((each.code for each in answers if each.code is not None), None)
        times = [each.time for each in answers]
        return EvaluatedVariant(
            name=to_os_text(self.candidate.name),
            outcome=outcome,
            code=None if code is None else FileRef.to(code),
            code_digest=self.code_digest,
            launch=None if self.shape is None else OwnLaunch(**asdict(self.shape)),
            source_digest=self.source_digest,
            flags=tuple(to_os_text(each) for each in self.candidate.flags),
            cases=tuple(
                CaseResult(
                    verdict=None if each.verdict is None else ManifestRef.to(each.verdict),
                    passed=None if each.outcome not in (Outcome.RIGHT, Outcome.WRONG) else _is_right(each),
                    time=each.time,
                    machine=None if each.machine in (None, machine) else Digest(each.machine),
                    own_process=each.own_process,
                )
                for each in answers
            ),
            ratio=weigh_times(cases, times) if outcome is Outcome.RIGHT else None,
            same_as=self.same_as,
            reasons=reasons,
        )


def _is_right(answer: Answer) -> bool:
    return answer.outcome is Outcome.RIGHT


def _combine(answers: Sequence[Answer]) -> Outcome:
    """Return what became of a variant over all cases: the worst, and wrong before not judged."""
    found = {each.outcome for each in answers}
    for outcome in (Outcome.REFUSED, Outcome.WRONG, Outcome.UNJUDGED):
        if outcome in found:
            return outcome
    return Outcome.RIGHT
