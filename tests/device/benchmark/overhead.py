"""What a program under kc-capture pays before its target, and after it.

Processes with and without kc-capture measure by turns; what is printed is the median of the ratios of two that had
their turns one after the other, with its 95 % confidence interval. Each process has a bias of its own for as long as it
lives, up to 10 %. So a loop's ratios before the target are divided by those of the same two processes after it, too.
"""

# ruff: noqa: E501 - the rows of a table read better whole
from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from machine import Bench, run
from table import confidence, each, median, quartiles, ratios
from turns import Groups, Turns, Under

from kerncap_stages.machine.cupti import choose_cupti_paths

if TYPE_CHECKING:
    from turns import Ratios

CORE = 2  # that launches come from
LAUNCHES = 1000  # of a turn
# Many groups with few turns each tell more than the reverse.
GROUPS, TURNS = 16, 14  # of the bare loop
MOST_LOOP_ROUNDS = 3  # of so many groups
WORK_ROUNDS = 2500  # between its launches: with what the driver takes, about 6 us each
TORCH_GROUPS, TORCH_TURNS = 10, 30
STEP_GROUPS, STEP_TURNS = 8, 10
MOST_STEP_ROUNDS = 4  # of so many turns
# A launch that is reached by launching as many again, and not before.
TORCH_DISPATCH = 60_000
START_ROUNDS = 5


class Bar(NamedTuple):
    """``most``: of the ratio's median, or of ``all_of_it``, its interval. ``most_low``: of the interval's lower end."""

    text: str
    most: float
    all_of_it: bool = False
    most_low: float = float("inf")


LOOP_BAR = Bar("at most +6 %", 1.06)
STEP_BAR = Bar("at most +2 %, all of it", 1.02, all_of_it=True)
MOST_ABOVE_NULL = 0.01
MOST_CERTAIN = 0.01  # that is left behind the target
SAME = "the same processes after the target"

TORCH = """
import functools, os, statistics, sys, time, torch
everywhere, one = os.sched_getaffinity(0), {int(sys.argv[1]) % os.cpu_count()}

def mean(work, repeat, first):
    for _ in range(first): work()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(repeat): work()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / repeat

def middle(work, repeat, first):
    return statistics.median([mean(work, 1, 0) for _ in range(first + repeat)][first:])

data = torch.zeros(1, device="cuda")
def launch(): data.add_(1)

# Its gradients come from a thread of PyTorch's own: a program that trains calls the driver from two.
@functools.cache
def training():
    layers = [torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True) for _ in range(4)]
    model = torch.nn.Sequential(*layers).cuda()
    optimiser = torch.optim.AdamW(model.parameters())
    batch = torch.randn(32, 128, 512, device="cuda")
    def step():
        optimiser.zero_grad(set_to_none=True)
        model(batch).square().mean().backward()
        optimiser.step()
    return step

for line in sys.stdin:
    question = line.strip()
    os.sched_setaffinity(0, one if question == "launches" else everywhere)
    took = {"launches": lambda: mean(launch, 1500, 300) * 1e6,
            "target": lambda: middle(lambda: mean(launch, 1000, 0), {launches} // 1000, 0),
            "first steps": lambda: mean(training(), 10, 10),
            "steps": lambda: middle(training(), 5, 1) * 1e3}[question]()
    print("%.4f" % took, flush=True)
"""


class Estimate(NamedTuple):
    """The median of all ratios, and its interval's two ends."""

    ratio: float
    low: float
    high: float

    @property
    def text(self) -> str:
        """In percent of what is alone."""
        ratio, low, high = ((each - 1) * 100 for each in self)
        return f"{ratio:+.2f} % ({low:+.2f} to {high:+.2f})"

    def holds(self, bar: Bar) -> bool:
        """Whether it is within ``bar``."""
        return (self.high if bar.all_of_it else self.ratio) <= bar.most and self.low <= bar.most_low


def _estimate(found: Ratios) -> Estimate:
    return Estimate(median([value for group in found for value in group]), *confidence(found))


def _within_spread(alone: list[float]) -> Bar:
    """Of the turns alone: their quartiles apart, as a part of the median. Turns that spread far hide no library that stays."""
    quarter, half, three_quarters = quartiles(alone)
    spread = (three_quarters - quarter) / half
    text = f"within the spread, {spread * 100:.1f} %, interval from at most +{MOST_CERTAIN * 100:g} %"
    return Bar(text, 1 + spread, most_low=1 + MOST_CERTAIN)


def _beside_null(null: Ratios) -> Bar:
    """The loops' bar, where what ``null``, a subscriber that does nothing, costs leaves room for it: no tool gets below that."""
    most = _estimate(null).ratio + MOST_ABOVE_NULL
    if most <= LOOP_BAR.most:
        return LOOP_BAR
    return Bar(
        f"{LOOP_BAR.text}, or +{(most - 1) * 100:.1f} %: CUPTI's own and {MOST_ABOVE_NULL * 100:g} %", most
    )


def _without_bias(before: Turns, after: Turns) -> Ratios:
    """Turn by turn of ``before``: what both have in common is a process's own, and no capture's."""
    return [
        [value / median(behind) for value in group]
        for group, behind in zip(before.ratios, after.ratios, strict=True)
    ]


def _is_open(found: Ratios, bar: Bar) -> bool:
    """Whether the bar lies within the interval, as beside noisy neighbours."""
    low, high = confidence(found)
    return low <= bar.most < high


def _until_it_tells(groups: Groups, question: str, turns: int, bar: Bar) -> Turns:
    """As ``groups.by_turns``; again, and all together, while it is open."""
    (found,) = groups.by_turns(question, turns)
    for _ in range(MOST_STEP_ROUNDS - 1):
        if not _is_open(found.ratios, bar):
            break
        (more,) = groups.by_turns(question, turns)
        ratios = [before + behind for before, behind in zip(found.ratios, more.ratios, strict=True)]
        found = Turns(ratios, found.alone + more.alone, found.under + more.under)
    return found


def _add(
    bench: Bench,
    what: str,
    found: Ratios,
    beside: str,
    bar: Bar | None = None,
    *,
    before: str = "",
    **numbers: object,
) -> None:
    """A row of these ratios; ``before``: what its text begins with."""
    estimate = _estimate(found)
    bench.table.add(
        what, before + estimate.text, beside, estimate.ratio, bar.text if bar else "", holds=estimate.holds(bar) if bar else None,
        interval=(estimate.low, estimate.high), ratios=found, **numbers)  # fmt: skip


def _add_turns(bench: Bench, what: str, measured: Turns, unit: str, bar: Bar | None = None) -> None:
    found, alone, under = measured
    quarter, half, three_quarters = quartiles(alone)
    _add(
        bench, f"{what}, {len(found)} x {len(found[0])} turns", found, f"alone {half:.3f} ({quarter:.3f} to {three_quarters:.3f})", bar,
        before=f"{median(under):.3f} {unit}: ", alone=alone, under=under)  # fmt: skip


def launches(bench: Bench) -> None:
    """A loop of short launches on a core of its own; its target is one launch in the middle.

    A process may be slow for as long as it lives: while it is open, more processes are measured, and all count.
    """
    before, after = _bare_loop(bench)
    for _ in range(MOST_LOOP_ROUNDS - 1):
        if not _is_open(before.ratios, LOOP_BAR):
            break
        more = _bare_loop(bench)
        before, after = (
            Turns(*(first + second for first, second in zip(*both, strict=True)))
            for both in zip((before, after), more, strict=True)
        )
    _add_turns(bench, "loop of bare launches, before the target", before, "us", LOOP_BAR)
    _add_turns(bench, "loop of bare launches, after it", after, "us", _within_spread(after.alone))
    _add(bench, "loop of bare launches, before against after", _without_bias(before, after), SAME, LOOP_BAR)


def _bare_loop(bench: Bench) -> tuple[Turns, Turns]:
    """Before the target and after it, of processes of their own."""
    words = (bench.folder / "launch_loop", LAUNCHES, WORK_ROUNDS, CORE)
    ours = Under(("kc-capture", "--kernel", "target"))
    with Groups(GROUPS, words, [ours], bench.memory / "loop", bench.folder) as groups:
        groups.all_at_once("part")
        (before,) = groups.by_turns("part", TURNS)
        groups.all_at_once("target")
        groups.all_at_once("part")
        (after,) = groups.by_turns("part", TURNS)
    return before, after


def torch_program(bench: Bench) -> None:
    """A loop of PyTorch's launches, and a program that trains."""
    script = bench.folder / "program.py"
    script.write_text(TORCH.replace("{launches}", str(TORCH_DISPATCH)))
    # A kernel that is launched all the time: each launch is counted.
    ours = Under(("kc-capture", "--kernel", "elementwise", "--dispatch", TORCH_DISPATCH))
    nothing = Under(variables=_null_subscriber(bench))
    words = (sys.executable, script, CORE)
    with Groups(TORCH_GROUPS, words, [ours, nothing], bench.memory / "torch", bench.folder) as groups:
        groups.all_at_once("launches")
        loop, null = groups.by_turns("launches", TORCH_TURNS)
        groups.all_at_once("target")
        groups.all_at_once("launches")
        after, after_null = groups.by_turns("launches", TORCH_TURNS)
    with Groups(STEP_GROUPS, words, [ours], bench.memory / "torch", bench.folder) as groups:
        groups.all_at_once("first steps")
        steps = _until_it_tells(groups, "steps", STEP_TURNS, STEP_BAR)
        groups.all_at_once("target")
        (later_steps,) = groups.by_turns("steps", STEP_TURNS)
    only_cupti = _without_bias(null, after_null)
    _add_turns(bench, "loop of PyTorch launches, before the target", loop, "us")
    _add_turns(bench, "loop of PyTorch launches, after it", after, "us", _within_spread(after.alone))
    _add(
        bench,
        "loop of PyTorch launches, before against after",
        _without_bias(loop, after),
        SAME,
        _beside_null(only_cupti),
    )
    _add_turns(bench, "the same loop under a subscriber of CUPTI's that does nothing", null, "us")
    _add_turns(bench, "the same, after that has left", after_null, "us")
    _add(bench, "the same, before against after", only_cupti, SAME)
    _add_turns(bench, "PyTorch training step, before the target", steps, "ms", STEP_BAR)
    _add_turns(bench, "PyTorch training step, after it", later_steps, "ms", _within_spread(later_steps.alone))


def _null_subscriber(bench: Bench) -> tuple[str, ...]:
    """Variables of the environment that bring it into a program."""
    toolkit = Path(shutil.which("nvcc") or "nvcc").resolve().parents[1]
    library = bench.folder / "libnull_subscriber.so"
    folders = [f"-I{toolkit / part}" for part in ("include", "extras/CUPTI/include")]
    source = Path(__file__).with_name("null_subscriber.cpp")
    run("c++", "-O2", "-std=c++20", "-shared", "-fPIC", *folders, source, "-o", library, "-ldl")
    return (
        f"CUDA_INJECTION64_PATH={library}",
        f"NULL_SUBSCRIBER_CUPTI={choose_cupti_paths(os.environ)}",
        f"NULL_SUBSCRIBER_LAUNCHES={TORCH_DISPATCH}",
    )


def start_up(bench: Bench) -> None:
    """From a program's start to the end of its first kernel."""

    def seconds(*lead: str) -> float:
        done = run(*lead, bench.folder / "start_up", store=bench.memory / "start", check=False)
        return float(re.search(r"started_s ([\d.]+)", done.stdout + done.stderr)[1])

    alone, under = [], []
    for _ in range(START_ROUNDS):
        alone.append(seconds())
        under.append(seconds("kc-capture", "--kernel", "no_such_kernel", "--"))
    more = median([with_us - without for with_us, without in zip(under, alone, strict=True)])
    bench.table.add("start of a program to the end of its first kernel", f"{each(under)} s", f"alone {each(alone)} s",
                    median(ratios(under, alone)), "at most 0.3 s more", holds=more <= 0.3, more_s=more)  # fmt: skip
