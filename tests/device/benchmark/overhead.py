"""What a program under kc-capture pays before its target, and after it.

Processes with and without kc-capture by turns; what is printed is the ratio of their medians (of quartiles where
that is said) with its 95 % confidence interval.
"""

# ruff: noqa: E501 - the rows of a table read better whole
from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from machine import Bench, run
from table import confidence, each, lower_quartile, median, ratios

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PAIRS = 12  # of the short loop
PARTS = 40  # of it
WORK_NS = 3500  # between its launches: with what the driver takes, about 6 us each
TORCH_PAIRS = 3
NEVER = ("kc-capture", "--kernel", "no_such_kernel", "--")

TORCH = """
import statistics, sys, time, torch
torch.set_num_threads(1)

def medians(work, rounds, repeat):
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(repeat): work()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / repeat)
    return statistics.median(times)

data = torch.zeros(1, device="cuda")
def launch(): data.add_(1)
medians(launch, 2, 2000)
print("launch_us %.4f" % (medians(launch, 10, 2000) * 1e6), file=sys.stderr)
layers = [torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True) for _ in range(4)]
model = torch.nn.Sequential(*layers).cuda()
optimiser = torch.optim.AdamW(model.parameters())
batch = torch.randn(32, 128, 512, device="cuda")
def step():
    optimiser.zero_grad(set_to_none=True)
    model(batch).square().mean().backward()
    optimiser.step()
medians(step, 20, 1)
print("step_ms %.4f" % (medians(step, 80, 1) * 1e3), file=sys.stderr)
"""


def _add(
    bench: Bench,
    what: str,
    pairs: tuple[Sequence[float], Sequence[float]],
    unit: str,
    most: float | None,
    statistic: Callable[[Sequence[float]], float] = median,
) -> None:
    """``pairs``: what each process took, alone and under kc-capture."""
    alone, under = pairs
    ratio = statistic(under) / statistic(alone)
    low, high = confidence(under, alone, statistic)
    spread = (max(alone) - min(alone)) / statistic(alone)
    bench.table.add(
        f"{what}, {len(alone)} pairs",
        f"{statistic(under):.3f} {unit}, {statistic(under) - statistic(alone):+.3f}: "
        f"{(ratio - 1) * 100:+.1f} % ({(low - 1) * 100:+.1f} to {(high - 1) * 100:+.1f})",
        f"alone {statistic(alone):.3f} ({min(alone):.3f} to {max(alone):.3f})", ratio,
        "within the spread" if most is None else f"at most +{most:g} %",
        holds=ratio - 1 <= (spread if most is None else most / 100), interval=(low, high), alone=list(alone),
        under=list(under))  # fmt: skip


def _by_turns(
    pairs: int, measure: Callable[[Sequence[str]], list[float]]
) -> list[tuple[list[float], list[float]]]:
    """Both runs' values, pair by pair; every second pair begins with the other."""
    found = []
    for number in range(pairs):
        order = ((), NEVER) if number % 2 else (NEVER, ())
        values = {lead: measure(lead) for lead in order}
        found.append((values[()], values[NEVER]))
    return found


def launches(bench: Bench) -> None:
    """A loop of short launches on a core of its own; its target is one launch in the middle.

    On a machine whose processors are shared, a process is in one of two modes 15 % apart, and changes between
    them: the lower quartile of each process's parts, and of the processes, is of the undisturbed one.
    """

    def parts(lead: Sequence[str]) -> list[float]:
        words = ("kc-capture", "--kernel", "target", "--") if lead else ()
        done = run(*words, bench.folder / "launch_loop", 1000, PARTS, WORK_NS, 2, store=bench.memory / "loop")
        values = [float(value) for value in re.findall(r"launch_us ([\d.]+)", done.stdout + done.stderr)]
        return [lower_quartile(values[: PARTS // 2]), lower_quartile(values[PARTS // 2 + 1 :])]

    found = _by_turns(PAIRS, parts)
    for index, what, most in ((0, "before the target", 6.0), (1, "after it", None)):
        pairs = [alone[index] for alone, _ in found], [under[index] for _, under in found]
        _add(bench, f"loop of launches, {what}", pairs, "us", most, lower_quartile)


def torch_program(bench: Bench) -> None:
    """PyTorch's launches, and a training step, of one process."""
    script = bench.folder / "program.py"
    script.write_text(TORCH)

    def values(lead: Sequence[str]) -> list[float]:
        # A kernel that is launched all the time, at a launch that never comes: each is counted.
        words = ("kc-capture", "--kernel", "elementwise", "--dispatch", 10**9, "--") if lead else ()
        done = run(*words, sys.executable, script, store=bench.memory / "torch", check=False)
        text = done.stdout + done.stderr
        return [float(re.search(rf"{name} ([\d.]+)", text)[1]) for name in ("step_ms", "launch_us")]

    found = _by_turns(TORCH_PAIRS, values)
    rows = (
        ("PyTorch training step, before the target", "ms", 2.0),
        ("loop of PyTorch launches, before it", "us", 6.0),
    )
    for index, (what, unit, most) in enumerate(rows):
        pairs = [alone[index] for alone, _ in found], [under[index] for _, under in found]
        _add(bench, what, pairs, unit, most)


def start_up(bench: Bench) -> None:
    """From a program's start to the end of its first kernel."""

    def seconds(lead: Sequence[str]) -> list[float]:
        done = run(*lead, bench.folder / "start_up", store=bench.memory / "start", check=False)
        return [float(re.search(r"started_s ([\d.]+)", done.stdout + done.stderr)[1])]

    found = _by_turns(3, seconds)
    alone, under = [alone[0] for alone, _ in found], [under[0] for _, under in found]
    more = median([with_us - without for with_us, without in zip(under, alone, strict=True)])
    bench.table.add("start of a program to the end of its first kernel", f"{each(under)} s", f"alone {each(alone)} s",
                    median(ratios(under, alone)), "at most 0.3 s more", holds=more <= 0.3, more_s=more)  # fmt: skip
