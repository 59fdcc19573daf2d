"""Ratios over several cases, and ranks."""

from __future__ import annotations

import manifest_examples as examples
import pytest

from kerncap_stages.evaluate.ranking import order, rank, weigh_times
from kerncap_stages.manifests.evaluation import MeasuredTime, Outcome


def counted(variant: int, captured: int) -> MeasuredTime:
    return MeasuredTime(
        ratio=variant / captured, variant_instructions=variant, captured_instructions=captured
    )


def timed(variant_ns: float, captured_ns: float) -> MeasuredTime:
    return MeasuredTime(ratio=variant_ns / captured_ns, variant_ns=variant_ns, captured_ns=captured_ns)


def cases(*weights: float | None, calls=None):
    case = examples.evaluation().cases[0]
    calls = calls or [None] * len(weights)
    return [
        case.model_copy(update={"weight": weight, "calls": each})
        for weight, each in zip(weights, calls, strict=True)
    ]


def test_one_case_counts_alone():
    assert weigh_times(cases(None), [counted(50, 100)]) == 0.5


def test_cases_count_by_their_time_in_the_profile():
    assert weigh_times(cases(3.0, 1.0), [timed(50, 100), timed(2000, 1000)]) == pytest.approx(0.875)


def test_without_a_profile_they_count_by_the_captured_kernel():
    assert weigh_times(cases(None, 1.0), [timed(50, 100), timed(2000, 1000)]) == pytest.approx(2050 / 1100)


def test_instructions_are_summed_over_calls_whatever_the_times_were():
    both = [counted(50, 100), counted(2000, 1000)]
    assert weigh_times(cases(9.0, 1.0, calls=(40, 2)), both) == pytest.approx(6000 / 6000)
    assert weigh_times(cases(9.0, 1.0, calls=(40, None)), both) == pytest.approx(2050 / 1100)


def test_without_one_time_there_is_no_ratio():
    assert weigh_times(cases(1.0, 1.0), [counted(50, 100), None]) is None
    assert weigh_times(cases(1.0), []) is None


def variants(*found: tuple[Outcome, float | None, int | None]):
    made = examples.evaluation().variants[0]
    return [
        made.model_copy(
            update={"name": str(number), "outcome": outcome, "ratio": ratio, "same_as": same, "rank": None}
        )
        for number, (outcome, ratio, same) in enumerate(found)
    ]


def test_equal_ratios_share_a_rank_and_twins_take_none():
    ranked = rank(
        variants(
            (Outcome.RIGHT, 0.5, None), (Outcome.RIGHT, 0.25, None), (Outcome.RIGHT, 0.5, None),
            (Outcome.RIGHT, 0.25, 1), (Outcome.RIGHT, 0.75, None), (Outcome.WRONG, None, None),
            (Outcome.RIGHT, None, None),
        )
    )  # fmt: skip
    assert [each.rank for each in ranked] == [2, 1, 2, 1, 4, None, None]


def test_a_table_has_the_right_ones_first():
    found = variants(
        (Outcome.REFUSED, None, None), (Outcome.WRONG, None, None), (Outcome.RIGHT, None, None),
        (Outcome.RIGHT, 0.5, None), (Outcome.RIGHT, 0.25, None),
    )  # fmt: skip
    assert [str(each.name) for each in order(rank(found))] == ["4", "3", "2", "1", "0"]


def test_infinite_ratios_have_no_rank():
    assert [each.rank for each in rank(variants((Outcome.RIGHT, float("inf"), None)))] == [None]
