"""Ranks variants: ratios of times over all cases, and the order of those that are right."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kerncap_stages.manifests.evaluation import Outcome
from kerncap_stages.project.cases import compare_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.manifests.evaluation import EvaluatedCase, EvaluatedVariant, MeasuredTime


def weigh_times(cases: Sequence[EvaluatedCase], times: Sequence[MeasuredTime | None]) -> float | None:
    """Return the ratio of times, or of instructions, over all cases; None if one is missing.

    Times: each case counts by its time in the profile, without a profile by the time of the captured kernel
    in that one dispatch. Instructions are summed over the calls in the profile, without a profile over one
    call of each case. A held-out case counts as the others.
    """
    known = [time for time in times if time is not None]
    if len(known) < len(times) or not known:
        return None
    if len(known) == 1:
        return known[0].ratio
    counts = [(time.variant_instructions, time.captured_instructions) for time in known]
    counted = [(after, before) for after, before in counts if after is not None and before is not None]
    if len(counted) == len(known):
        return compare_counts([case.calls for case in cases], counted)
    profile = [case.weight for case in cases]
    weights = [float(each) for each in profile if each]
    if len(weights) < len(known):
        weights = [float(time.captured_ns or 0.0) for time in known]
    total = sum(weights)
    if not total:
        return None
    return sum(time.ratio * weight for time, weight in zip(known, weights, strict=True)) / total


def rank(variants: Sequence[EvaluatedVariant]) -> tuple[EvaluatedVariant, ...]:
    """Give ranks to the right variants, the fastest first; equal ratios share a rank.

    A variant that is the same as an earlier one has its rank. Without a time there is no rank.
    """
    timed = [each for each in variants if is_ranked(each)]
    ratios = sorted(each.ratio for each in timed if each.same_as is None and each.ratio is not None)
    ranks: dict[float, int] = {}
    for number, ratio in enumerate(ratios, start=1):
        ranks.setdefault(ratio, number)
    return tuple(
        each.model_copy(update={"rank": ranks.get(each.ratio) if is_ranked(each) and each.ratio else None})
        for each in variants
    )


def is_ranked(variant: EvaluatedVariant) -> bool:
    """Whether a variant is right, and its time is known."""
    return variant.outcome is Outcome.RIGHT and variant.ratio is not None and math.isfinite(variant.ratio)


def order(variants: Sequence[EvaluatedVariant]) -> list[EvaluatedVariant]:
    """Return the variants for a table: by rank, then right ones without a time, then the others as given."""
    outcomes = list(Outcome)
    return sorted(
        variants,
        key=lambda each: (
            each.rank is None,
            each.rank or 0,
            0 if each.rank is not None else outcomes.index(each.outcome),
        ),
    )
