"""The software GPU's interpreter: the lines of its own native benchmark, which knows its bars."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

from frame import Figure, at_least, at_most, row

if TYPE_CHECKING:
    from collections.abc import Callable

    from frame import Bar, Run

_LINE = re.compile(
    r"(?P<what>.*?)\s+(?P<value>\d+\.\d\d) (?P<unit>.*?)\s+at (?:least|most) [\d.]+: (?:yes|NO)"
)


def lines(run: Run) -> dict[str, tuple[float, str]]:
    """What engine_bench printed, by the name of the line."""

    def measure() -> dict[str, tuple[float, str]]:
        program = run.build / "tests/native/softgpu/engine_bench"
        out = subprocess.run([program], check=False, capture_output=True, text=True).stdout
        found = [match for line in out.splitlines() if (match := _LINE.fullmatch(line))]
        return {match["what"]: (float(match["value"]), match["unit"]) for match in found}

    return run.keep("engine", measure)


def _add(name: str, what: str, bar: Bar) -> None:
    def measure(run: Run) -> Figure:
        value, unit = lines(run)[what]
        return Figure(value, unit)

    row(name, f"interpreter: {what}", bar)(measure)


def _add_all(add: Callable[[str, str, Bar], None]) -> None:
    add("engine.alu", "ALU code, one core", at_least(25, "value"))
    add("engine.group", "ALU code, work-groups of 4 waves", at_least(25, "value"))
    add("engine.barrier", "LDS and barriers, 4 waves", at_least(10, "value"))
    add("engine.load", "global load, 64 lanes x 4 bytes", at_most(60, "value"))
    add("engine.matrix", "MFMA 32x32x8 f16", at_most(0.6, "value"))
    add("engine.cores", "two cores against one", at_least(1.7, "value"))


_add_all(_add)
