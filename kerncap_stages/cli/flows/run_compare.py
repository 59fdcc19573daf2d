"""What `kc-run --compare` does: run the program with the captured kernel and with the variant by turns."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from kerncap_stages.collect.paired_times import PairedTimes
from kerncap_stages.errors import ProgramError
from kerncap_stages.text.formats import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kerncap_stages.collect.program import ProgramSpec
    from kerncap_stages.collect.replacing import ReplacedRun


def compare_by_turns(
    spec: ProgramSpec, pairs: int, run: Callable[[ProgramSpec, bool], ReplacedRun], first: ReplacedRun
) -> PairedTimes:
    """Run the program 2 x ``pairs`` times, without input and with its output dropped.

    run: runs it, with the variant if that is true. first: an earlier run with the variant, not timed.
    Each run has kc-run's library in it. Which of a pair is first alternates.
    Raises ProgramError if a run ends otherwise than the first one.
    """
    quiet = replace(spec, stdin=Path(os.devnull), stdout=Path(os.devnull))
    times: dict[bool, list[int]] = {False: [], True: []}
    for number in range(pairs):
        for with_variant in (False, True) if number % 2 == 0 else (True, False):
            made = run(quiet, with_variant)
            ended = (made.program.exit_code, made.program.exit_signal)
            if ended != (first.program.exit_code, first.program.exit_signal):
                which = "variant" if with_variant else "captured kernel"
                raise ProgramError(
                    f"with the {which}, the program {made.program.describe_end()}, and the first run, with "
                    f"the variant, {first.program.describe_end()}: their times cannot be compared",
                    hint="runs that are timed have no input: --compare is for programs that need none",
                )
            if with_variant and not made.dispatches:
                raise ProgramError(
                    "a timed run launched no kernel that was replaced, so the times say nothing",
                    hint="runs that are timed have no input: --compare is for programs that need none",
                )
            times[with_variant].append(made.wall_ns)
    return PairedTimes(tuple(times[False]), tuple(times[True]))


def describe_times(times: PairedTimes, *, is_software: bool) -> Iterator[str]:
    """Say how the times compare, and how sure that is."""
    low, high, confidence = times.interval
    yield (
        f"end to end: {times.ratio:.4f} times the time with the captured kernel, the median of "
        f"{len(times.ratios)} pairs; {100 * confidence:.1f} % confidence interval {low:.4f} to {high:.4f}"
    )
    each = (
        f"{name} {_middle(ns)}"
        for name, ns in (("captured", times.captured_ns), ("variant", times.variant_ns))
    )
    yield f"wall time, median: {', '.join(each)}"
    if low <= 1 <= high:
        yield "the interval contains 1: these runs show no difference"
    if confidence < 0.95:
        yield "fewer than 6 pairs give no interval of 95 %"
    if is_software:
        yield "on the software GPU: this says nothing about the time on hardware"


def _middle(times_ns: tuple[int, ...]) -> str:
    return format_duration(median(times_ns))
