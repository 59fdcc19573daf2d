"""What every benchmark shares: a row of the table, its bar, and what the machine did meanwhile.

A row is a function that takes a ``Run`` and returns a ``Figure``:

    @row("store.zeros", "put, all zeros", bar=at_least(4, "value"))
    def put_zeros(run: Run) -> Figure:
        seconds, ceiling_s, ratio, cpu_ratio = run.paired(measured, plain)
        …
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from plain_loops import PlainLoops
from stopwatch import Seconds, Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable

    Kept = TypeVar("Kept")
    Measure = Callable[["Run"], "Figure"]

GIB = 1 << 30
PATIENCE_S = 60.0
ROWS: list[Row] = []


class NoRoomError(Exception):
    """The machine has not the disk or the memory that a row needs."""


@dataclass(frozen=True)
class Bar:
    """What a figure has to reach."""

    limit: float
    at_least: bool
    of: Literal["ratio", "value"]

    def met(self, figure: Figure) -> bool:
        """Whether a figure reaches it."""
        judged = figure.ratio if self.of == "ratio" else figure.value
        assert judged is not None
        return judged >= self.limit if self.at_least else judged <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:,g}"


def at_least(limit: float, of: Literal["ratio", "value"] = "ratio") -> Bar:
    """The ratio to the ceiling, or the value itself, must not be below."""
    return Bar(limit, True, of)


def at_most(limit: float, of: Literal["ratio", "value"] = "ratio") -> Bar:
    """The ratio to the ceiling, or the value itself, must not be above."""
    return Bar(limit, False, of)


@dataclass(frozen=True)
class Figure:
    """What a row measured.

    value: in ``unit``. ceiling: the same of what it is compared with, measured in the same run. ratio: the
    median of the rounds' ratios of the two. met: given where the bar is more than a limit. cpu_ratio: the
    same of processor time, which tells more than the ratio where the machine is busy.
    """

    value: float
    unit: str
    ceiling: float | None = None
    ratio: float | None = None
    note: str = ""
    met: bool | None = None
    cpu_ratio: float | None = None


@dataclass(frozen=True)
class Row:
    """A line of the table. ``bar`` None: the figure is printed and nothing is asked of it."""

    name: str
    what: str
    bar: Bar | None
    measure: Measure


def row(name: str, what: str, bar: Bar | None = None) -> Callable[[Measure], Measure]:
    """Add the function below to the table, under a name such as ``store.put``."""

    def add(measure: Measure) -> Measure:
        ROWS.append(Row(name, what, bar, measure))
        return measure

    return add


@dataclass
class Run:
    """One run of the benchmarks: its settings, and what rows hand to later ones."""

    size_bytes: int
    rounds: int
    folder: Path
    build: Path
    kept: dict[str, object] = field(default_factory=dict)

    @cached_property
    def threads(self) -> int:
        """As many as the processors that this process may use."""
        return len(os.sched_getaffinity(0))

    @cached_property
    def plain(self) -> PlainLoops:
        """The native loops."""
        return PlainLoops(self.build / "benchmarks/libplain_loops.so", self.threads)

    def keep(self, name: str, make: Callable[[], Kept]) -> Kept:
        """What an earlier row made under this name, else made now."""
        if name not in self.kept:
            self.kept[name] = make()
        return self.kept[name]  # type: ignore[return-value]

    def place(self) -> Path:
        """A new, empty folder on the disk that is measured."""
        return Path(tempfile.mkdtemp(prefix="kerncap-bench-", dir=self.folder))

    def paired(
        self, measured: Callable[[], float], plain: Callable[[], float], rounds: int = 0, most: int = 0
    ) -> tuple[float, float, float, float]:
        """Seconds of both, by turns, so that whatever else happens here hits both alike.

        most: where that is more than ``rounds``, it goes on until the ratios have settled, to so many, or for
        as long as PATIENCE_S.
        Returns the medians of both, and the medians of the rounds' ratios measured / plain: of wall time, and
        of processor time.
        """
        pairs: list[tuple[Seconds, Seconds]] = []
        end = time.monotonic() + PATIENCE_S
        while len(pairs) < (rounds or self.rounds) or (
            len(pairs) < most and time.monotonic() < end and not settled([a / b for a, b in pairs])
        ):
            number = len(pairs)
            first, second = (measured, plain) if number % 2 else (plain, measured)
            one, two = _taken(first), _taken(second)
            pairs.append((one, two) if number % 2 else (two, one))
        ours, theirs = zip(*pairs, strict=True)
        ratio = statistics.median(a / b for a, b in pairs)
        cpu_ratio = statistics.median(a.cpu_s / b.cpu_s for a, b in pairs)
        return statistics.median(ours), statistics.median(theirs), ratio, cpu_ratio

    def need(self, disk_bytes: int, memory_bytes: int) -> None:
        """Raises NoRoomError, saying what to do, where there is not so much."""
        free = shutil.disk_usage(self.folder).free
        if free < disk_bytes:
            raise NoRoomError(
                f"{self.folder} has {free / GIB:.1f} GiB free, {disk_bytes / GIB:.1f} are needed: "
                "choose --size GIB or --folder DIR"
            )
        available = available_memory_bytes()
        if available < memory_bytes:
            raise NoRoomError(
                f"{available / GIB:.1f} GiB of memory are available, {memory_bytes / GIB:.1f} are needed: "
                "choose --size GIB"
            )


def settled(ratios: list[float]) -> bool:
    """Whether another round would hardly move the median: its standard error is within 2 % of it."""
    low, middle, high = statistics.quantiles(ratios, n=4)
    # Of a normal distribution: the median's standard error is 1.25 deviations, the quartiles are 1.35 apart.
    return 1.25 / 1.35 * (high - low) / len(ratios) ** 0.5 <= 0.02 * middle


def _taken(work: Callable[[], float]) -> Seconds:
    """What it says it took; the processor time of all of it where it knows only of wall time."""
    watch = Stopwatch()
    seconds = work()
    return seconds if isinstance(seconds, Seconds) else watch.stop(seconds)


def available_memory_bytes() -> int:
    """What the kernel could give without swapping."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) * 1024


class Neighbours:
    """How many cores everything but this process and its children kept busy: the load beside a figure."""

    def __init__(self) -> None:
        self._begin = self._now()

    @staticmethod
    def _now() -> tuple[float, float, float]:
        ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        idle = ticks[3] + ticks[4]
        times = os.times()
        busy_s = (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK")
        return (
            time.monotonic(),
            busy_s,
            times.user + times.system + times.children_user + times.children_system,
        )

    def cores(self) -> float:
        """Since this was made."""
        then, now = self._begin, self._now()
        return max(0.0, (now[1] - then[1]) - (now[2] - then[2])) / max(now[0] - then[0], 1e-6)


def say(text: str) -> None:
    """Progress, for people."""
    print(f"bench: {text}", file=sys.stderr, flush=True)
