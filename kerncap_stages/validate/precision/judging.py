"""Judges how exact a variant is, if there is a reference."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.validate.judgement import Judgement
    from kerncap_stages.validate.perturb.expectation import Expectation
    from kerncap_stages.validate.precision.measure import Precision
    from kerncap_stages.validate.replayer import Run


def judge_precision(
    precision: Precision,
    judgement: Judgement,
    wanted: Expectation,
    run: Run,
    replay_again: Callable[[], Run] | None = None,
) -> Judgement:
    """Fail a variant that is less exact than the captured kernel, if there is a reference to measure both by.

    replay_again: replays the captured kernel from the same state. Raises what ``Precision.measure`` raises.
    """

    def list_again() -> list[Mapping[int, MemoryRef]]:
        again = run if replay_again is None else replay_again()
        return [again.outputs, *again.differing]

    measured = precision.measure(
        wanted.start,
        wanted.expected,
        (run.outputs, *run.differing),
        None if replay_again is None else list_again,
    )
    judgement = replace(judgement, precision=(*judgement.precision, *measured.outputs))
    judgement = judgement.note(*measured.notes)
    return judgement.fail(*(why for output in measured.outputs for why in output.explain_failure()))
