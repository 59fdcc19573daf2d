"""Writes the page and its pictures from results.json. Every number on the page is computed here."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import jinja2
from plots import Bar, draw_bars

HERE = Path(__file__).resolve().parent
LEAST, GOAL = 13.6, 20
AXIS_END = 2 * GOAL  # of the chart of ratios


def write_page(results: dict[str, Any], folder: Path) -> None:
    """Write README.md and the pictures into a folder."""
    for name, text in make_files(results).items():
        (folder / name).write_text(text)


def make_files(results: dict[str, Any]) -> dict[str, str]:
    """Return the text of each file of the page by its name."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - Markdown, of numbers and names of this repository's own
    )
    environment.filters.update(seconds=seconds, size=size, code=code, times=times)
    rows = [Row(kernel) for kernel in results["kernels"].values()]
    loads = [found["step"]["load"] for found in _list_steps(results)]
    page = environment.get_template("page.md.j2").render(
        r=results,
        rows=rows,
        steps=list_steps(rows),
        turns=sum(key.startswith("right") for key in rows[0].loop) - 1,
        reached={
            "With `kc-validate --quick`": sort_by_ratio(rows, quick=True),
            "With the whole verdict": sort_by_ratio(rows, quick=False),
        },
        layers=Layers(results["layers"]),
        unfinished=name_unfinished(rows),
        load={"least": min(loads), "most": max(loads)},
        axis_end=AXIS_END,
        beyond=any(row.ratio(quick=quick) > AXIS_END for row in rows for quick in (True, False)),
        least=LEAST,
        goal=GOAL,
    )
    return {"README.md": page, **draw_pictures(rows, results["layers"])}


class Row:
    """What the page says of one kernel."""

    def __init__(self, kernel: dict[str, Any]) -> None:
        self.name = kernel["name"]
        self.kernel, self.extract, self.build = kernel, kernel["extract"], kernel["build"]
        self.loop = kernel["loop"]["rows"]
        median = kernel["loop"]["median"]
        self.recompile, self.validate, self.quick = median["recompile"], median["validate"], median["quick"]

    def ours(self, unit: str = "wall_s", *, quick: bool = False) -> float:
        """Return the median loop in the project, with the whole verdict or with the quick one."""
        return float(self.recompile[unit] + (self.quick if quick else self.validate)[unit])

    def theirs(self, unit: str = "wall_s") -> float:
        """Return the loop in llama.cpp's own build: build, and run the program."""
        return float(self.build["built"][unit] + self.build["test"][unit])

    def with_tests(self, results: dict[str, Any]) -> float:
        """Return the loop in llama.cpp's build if the operator's own tests are run instead of the program."""
        test = results["tests"][self.kernel["operator"]]
        return float(self.build["built"]["wall_s"] + test["took"]["wall_s"])

    def ratio(self, unit: str = "wall_s", *, quick: bool = False) -> float:
        """Return how many times faster the loop in the project is."""
        return self.theirs(unit) / self.ours(unit, quick=quick)

    def recompile_ratio(self, unit: str = "cpu_s") -> float:
        """Return the same without the program's run and the verdict: compiling alone."""
        return float(self.build["built"][unit] / self.recompile[unit])

    def verdict(self, name: str, *, quick: bool = False) -> str:
        """Return PASS or FAIL, of the unedited source, of all right edits, or of the wrong one."""
        which = "passed_quick" if quick else "passed"
        chosen = [row[which] for key, row in self.loop.items() if key.startswith(name)]
        if len(set(chosen)) > 1:
            return f"PASS {sum(chosen)} of {len(chosen)}"
        return "PASS" if chosen[0] else "FAIL"

    @property
    def instructions(self) -> str:
        """Return whether the unedited source gives the captured instructions."""
        same = self.extract["unedited"]["same_instructions"]
        return "unknown" if same is None else "the same" if same else "others"


class Layers:
    """Ten captures of one run against one."""

    def __init__(self, layers: dict[str, Any]) -> None:
        self.one = layers["1"]
        self.ten = next(found for key, found in layers.items() if key not in ("1", "kernel", "step"))

    @property
    def factor(self) -> float:
        """Return how many times the store of one capture that of ten needs."""
        return float(self.ten["stored_bytes"] / self.one["stored_bytes"])


def list_steps(rows: list[Row]) -> list[str]:
    """List the steps of kc-extract."""
    return list(dict.fromkeys(step for row in rows for step in row.extract["steps"]))


def sort_by_ratio(rows: list[Row], *, quick: bool) -> dict[str, list[str]]:
    """Name the kernels that reach the goal, the least, or less."""
    ratios = {row.name: row.ratio(quick=quick) for row in rows}
    return {
        f"at least {GOAL}": [name for name, ratio in ratios.items() if ratio >= GOAL],
        f"{LEAST} to {GOAL}": [name for name, ratio in ratios.items() if LEAST <= ratio < GOAL],
        f"less than {LEAST}": [name for name, ratio in ratios.items() if ratio < LEAST],
    }


def name_unfinished(rows: list[Row]) -> dict[str, Any] | None:
    """Name the kernels whose build was stopped at its limit."""
    stopped = [row for row in rows if not row.build["finished"]]
    if not stopped:
        return None
    took = min(row.build["built"]["wall_s"] for row in stopped)
    return {"names": [row.name for row in stopped], "seconds": took}


def _list_steps(results: dict[str, Any]) -> list[dict[str, Any]]:
    own = [value for value in results.values() if "step" in value]
    of_kernels = [row[name] for row in results["kernels"].values() for name in ("extract", "loop", "build")]
    return [*own, *results["profiles"].values(), *results["tests"].values(), *of_kernels]


def draw_pictures(rows: list[Row], layers: dict[str, Any]) -> dict[str, str]:
    """Draw all charts."""
    steps = list_steps(rows)
    sizes = Layers(layers)
    mib = 2**20
    return {
        "ratio.svg": draw_bars(
            "how many times faster the loop is",
            "times",
            ("wall time",),
            [
                Bar(
                    f"{row.name}, {name}",
                    (min(row.ratio(quick=quick), AXIS_END),),
                    times(row.ratio(quick=quick)),
                )
                for row in rows
                for name, quick in (("--quick", True), ("whole", False))
            ],
            {LEAST: f"{LEAST}", GOAL: f"{GOAL}"},
        ),
        "build.svg": draw_bars(
            "llama.cpp's own build after the same edit",
            "seconds",
            ("cmake --build", "the program"),
            [
                Bar(
                    row.name,
                    (row.build["built"]["wall_s"], row.build["test"]["wall_s"]),
                    seconds(row.theirs()),
                )
                for row in rows
            ],
        ),
        "loop.svg": draw_bars(
            "the loop in the project",
            "seconds",
            ("make recompile", "kc-validate, or with --quick"),
            [
                Bar(
                    f"{row.name}, {name}",
                    (row.recompile["wall_s"], part["wall_s"]),
                    seconds(row.ours(quick=part is row.quick)),
                )
                for row in rows
                for name, part in (("--quick", row.quick), ("whole", row.validate))
            ],
        ),
        "project.svg": draw_bars(
            "from the command to the project",
            "seconds",
            tuple(steps),
            [
                Bar(
                    row.name,
                    tuple(row.extract["steps"].get(step, 0.0) for step in steps),
                    seconds(row.extract["took"]["wall_s"]),
                )
                for row in rows
            ],
        ),
        "sizes.svg": draw_bars(
            "sizes of one capture and of ten",
            "MiB",
            ("bytes",),
            [
                Bar(f"{label}, {kind}", (found[key] / mib,), size(found[key]))
                for label, found in (("one", sizes.one), ("ten", sizes.ten))
                for kind, key in (("raw", "raw_bytes"), ("stored", "stored_bytes"))
            ],
        ),
    }


def seconds(value: float) -> str:
    """Write a time."""
    return f"{value:.1f} s" if value < 100 else f"{value:.0f} s"


def times(ratio: float) -> str:
    """Write a ratio, rounded down: a bar that was just missed is not shown as reached."""
    return f"{math.floor(10 * ratio) / 10:.1f}"


def size(value: int) -> str:
    """Write a number of bytes."""
    return f"{value / 2**20:.1f} MiB" if value >= 2**20 else f"{value / 2**10:.1f} KiB"


def code(text: str) -> str:
    """Write a name of C++ in a cell of a table."""
    return f"`{text}`".replace("|", "\\|")
