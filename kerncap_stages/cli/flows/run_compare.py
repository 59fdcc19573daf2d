"""What `kc-run --compare` does: run the program with the captured kernel and with the variant by turns."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from kerncap_stages.collect.paired_times import WANTED, PairedTimes
from kerncap_stages.errors import ProgramError
from kerncap_stages.text.formats import count, format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kerncap_stages.collect.program import ProgramSpec
    from kerncap_stages.collect.replacing import ReplacedRun

_SOFTWARE = "on the software GPU: this says nothing about the time on hardware"


@dataclass
class Comparison:
    """Wall times of runs by turns. ``wanted``: how many pairs of runs to make; only whole pairs are kept."""

    wanted: int
    is_software: bool
    captured_ns: list[int] = field(default_factory=list)
    variant_ns: list[int] = field(default_factory=list)

    @property
    def times(self) -> PairedTimes | None:
        """The times; None before the first pair was whole."""
        return PairedTimes(tuple(self.captured_ns), tuple(self.variant_ns)) if self.captured_ns else None

    def run(
        self, spec: ProgramSpec, run: Callable[[ProgramSpec, bool], ReplacedRun], first: ReplacedRun
    ) -> None:
        """Run the program 2 x ``wanted`` times, without input and with its output dropped.

        run: runs it, with the variant if that is true. first: an earlier run with the variant, not timed.
        Each run has kc-run's library in it. Which of a pair is first alternates.
        Raises ProgramError if a run ends otherwise than the first one.
        """
        # In a process group of its own, so that an interrupt ends all its processes.
        quiet = replace(spec, stdin=Path(os.devnull), stdout=Path(os.devnull), in_foreground=False)
        for number in range(self.wanted):
            pair = {}
            for with_variant in (False, True) if number % 2 == 0 else (True, False):
                made = run(quiet, with_variant)
                _require_same_end(made, first, with_variant=with_variant)
                pair[with_variant] = made.wall_ns
            self.captured_ns.append(pair[False])
            self.variant_ns.append(pair[True])


def _require_same_end(made: ReplacedRun, first: ReplacedRun, *, with_variant: bool) -> None:
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


def describe_times(comparison: Comparison) -> Iterator[str]:
    """Say how the times compare, and how sure that is."""
    times = comparison.times
    if times is None:
        yield "no pair of runs was whole, so there are no times"
        return
    runs = len(times.ratios)
    yield (
        f"timed: {count(runs, 'run')} with each kernel, by turns; the first run of all, with the variant, "
        "was the warm-up and is not timed"
    )
    each = (
        f"{name} {format_duration(median(ns))}"
        for name, ns in (("captured kernel", times.captured_ns), ("variant", times.variant_ns))
    )
    yield f"wall time, from the program's start to its end, median: {', '.join(each)}"
    low, high, confidence = times.interval
    is_sure = confidence >= WANTED
    interval = f"{100 * confidence:.1f} % confidence interval" if is_sure else "the ratios go from"
    yield (
        f"wall times, variant / captured kernel: {times.ratio:.4f}, the median of {count(runs, 'ratio')}, "
        f"one for each pair of runs; {interval} {low:.4f} to {high:.4f}"
    )
    if not is_sure:
        yield "fewer than 6 pairs of runs give no confidence interval of 95 %: `--compare 6`"
    elif low <= 1 <= high:
        yield "the interval contains 1: these runs show no difference"
    else:
        yield f"the program took {'less' if high < 1 else 'more'} time with the variant"
    if comparison.is_software:
        yield _SOFTWARE
