"""Decides which variants are judged and timed once more, in processes that no other variant has run in.

Each that would be the best so far. So what is best, of the variants that were evaluated at any time, owes
nothing to what another variant left in a process: docs/decisions/0087-a-process-that-is-kept.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from kerncap_stages.evaluate.ranking import weigh_times
from kerncap_stages.manifests.evaluation import Outcome
from kerncap_stages.store.remembered import make_request_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.digest import Digest
    from kerncap_stages.evaluate.entries import Answer, Entry
    from kerncap_stages.manifests.evaluation import EvaluatedCase
    from kerncap_stages.validate.request import Request


class Leaders:
    """The best ratio of the variants that had processes of their own."""

    def __init__(self, cases: Sequence[EvaluatedCase]) -> None:
        self._cases = cases
        self._best = math.inf

    def _choose_again(self, entry: Entry) -> list[int]:
        """Return the cases that a variant has to be judged on again. All cases have answers."""
        answers = [entry.answers[case] for case in range(len(self._cases))]
        ratio = weigh_times(self._cases, [each.time for each in answers])
        if ratio is None or ratio >= self._best or any(each.outcome is not Outcome.RIGHT for each in answers):
            return []
        again = [case for case, each in enumerate(answers) if not each.own_process]
        if not again:
            self._best = ratio
        entry.asked_again.update(again)
        return again

    def take(self, entry: Entry, case: int, answer: Answer) -> tuple[bool, list[int]]:
        """Give an entry an answer; returns whether all is known of it, and the cases to be judged again."""
        if case in entry.asked_again and answer.outcome is Outcome.UNJUDGED:
            # It was right before, and stays so. Its time is not sure, so it does not rank.
            first = entry.answers[case]
            answer = replace(first, time=None, reasons=(*first.reasons, *answer.reasons))
        entry.answers[case] = answer
        entry.asked_again.discard(case)
        if entry.asked_again or len(entry.answers) < len(self._cases):
            return False, []
        again = self._choose_again(entry)
        return not again, again


def choose_key(request: Request, *, own_process: bool) -> Digest:
    """Return under what the verdict on a request is found again.

    kc-validate, which gives each variant processes of its own, does not find others.
    """
    return request.key if own_process else make_request_key("in a process with others", request=request.key)
