"""Which runs kc-replay makes, and what it says of several cases."""

from __future__ import annotations

from types import SimpleNamespace

import manifest_examples as examples
import pytest

from kerncap_stages.cli.flows.replay import average_cases, choose_runs
from kerncap_stages.manifests.timing import TimeSource
from kerncap_stages.project.cases import Case, _read_scalars
from kerncap_stages.replay.report import ReplayResult
from kerncap_stages.replay.result_lines import write_result_lines
from kerncap_stages.replay.timing import compare, summarise


@pytest.mark.parametrize(
    ("given", "compares", "runs"),
    [
        ((None, None), False, (1, 0)),
        ((None, None), True, (10, 1)),
        ((1, None), True, (1, 0)),
        ((None, 0), True, (10, 0)),
        ((None, 3), False, (1, 3)),
        ((7, 2), True, (7, 2)),
    ],
)
def test_a_comparison_has_several_runs_unless_others_are_asked_for(given, compares, runs):
    assert choose_runs(*given, compares=compares) == runs


def replay(after, before, times=((50, 60), (100, 100)), source=TimeSource.SOFTWARE_GPU):
    variant, captured = (
        summarise(each, source, count) for each, count in zip(times, (after, before), strict=True)
    )
    made = examples.replay()
    return made.model_copy(update={"timing": variant, "comparison": compare(captured, variant)})


def ratio_line(made):
    result = ReplayResult(outcome=made.outcome)
    return next(line for line in write_result_lines(made, result) if line.startswith("variant / baseline"))


def test_one_pair_of_runs_says_that_it_shows_no_spread():
    line = ratio_line(replay(5, 10, ((50,), (100,))))
    assert "0.500 (one pair of runs, which does not show how much times vary: give --iterations 20)" in line
    assert "5 to 95 %" not in line
    line = ratio_line(replay(5, 10))
    assert "0.550 (median of 2 pairs of runs, 5 to 95 %: 0.505 to 0.595)" in line


def test_a_comparison_says_which_time_is_whose():
    made = replay(5, 10)
    first, second, *_ = write_result_lines(made, ReplayResult(outcome=made.outcome))
    assert first.startswith("baseline, the captured kernel: 2 runs, median 100 ns, ")
    assert second.startswith("variant: 2 runs, median 55 ns, ")
    alone = made.model_copy(update={"comparison": None})
    first, *_ = write_result_lines(alone, ReplayResult(outcome=alone.outcome))
    assert first.startswith("2 runs, median 55 ns, ")


def test_an_address_is_no_scalar_that_tells_cases_apart():
    """A cubin does not say which of its parameters are pointers."""
    base = 0x7F0000000000
    slots = [
        SimpleNamespace(value_kind="by_value", offset_bytes=0, size_bytes=8),
        SimpleNamespace(value_kind="by_value", offset_bytes=8, size_bytes=4, name="count"),
        SimpleNamespace(value_kind="by_value", offset_bytes=12, size_bytes=4),
    ]
    kernarg = (base + 16).to_bytes(8, "little") + (64).to_bytes(4, "little") + (5).to_bytes(4, "little")
    capture = SimpleNamespace(
        kernarg=kernarg.hex(),
        kernel=SimpleNamespace(slots=slots, demangled_name="k(float*, unsigned int, int)"),
        regions=[SimpleNamespace(base_address=base, size_bytes=4096)],
    )
    assert _read_scalars(capture) == {"count": "64", "argument 2": "5"}


def cases(*measured, kernels=("k", "k")):
    return [
        Case(kernel, f"{number} work-groups", time_ns, calls=calls)
        for number, (kernel, (time_ns, calls)) in enumerate(zip(kernels, measured, strict=True))
    ]


PROFILED = ((1000, 40), (9000, 2))


def test_on_the_software_gpu_instructions_are_averaged_by_calls():
    both = [replay(50, 100), replay(2000, 1000)]
    assert average_cases(cases(*PROFILED), both) == (
        "wave instructions, variant / baseline over all cases, weighted by their calls in the profile: 1.000 "
        "(not a ratio of times)"
    )
    assert average_cases(cases((None, None), (None, None)), both) == (
        "wave instructions, variant / baseline over all cases, each counted once: 1.864 "
        "(not a ratio of times)"
    )


def test_on_a_gpu_times_are_averaged_by_time():
    both = [
        replay(None, None, ((50, 50), (100, 100)), TimeSource.DEVICE),
        replay(None, None, ((90, 90), (100, 100)), TimeSource.DEVICE),
    ]
    assert average_cases(cases(*PROFILED), both) == (
        "times, variant / baseline over all cases, weighted by their time in the profile: 0.860"
    )
    assert average_cases(cases((None, None), (None, None)), both) is None


def test_what_cannot_be_averaged_is_not():
    both = [replay(50, 100), replay(2000, 1000)]
    assert average_cases(cases(*PROFILED), both[:1]) is None
    assert average_cases(cases(*PROFILED, kernels=("k", "other")), both) is None
