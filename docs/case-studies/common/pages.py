"""What the pages of all studies say of a kernel, and their pictures. Every number is computed here."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import jinja2
from plots import Bar, draw_bars

HERE = Path(__file__).resolve().parent
LEAST, GOAL = 13.6, 20
UNIT_GOAL = 8  # for compiling one unit alone
AXIS_END = 2 * GOAL  # of the chart of ratios


def load_template(folder: Path) -> jinja2.Template:
    """Return the template of a study's page, which is in its folder, with what all pages use."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, HERE]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - Markdown, of numbers and names of this repository's own
    )
    filters = (seconds, minutes, size, code, times, shorten)
    environment.filters.update({function.__name__: function for function in filters})
    return environment.get_template("page.md.j2")


def render(
    results: dict[str, Any], rows: list[Row], folder: Path, unit_goal: float = UNIT_GOAL, **more: Any
) -> str:
    """Return the text of a study's page, from the template in its folder."""
    done = [found["step"] for found in _list_steps(results)]
    loads = [step["load"] for step in done]
    return load_template(folder).render(
        r=results,
        rows=rows,
        steps=list_steps(rows),
        turns=sum(key.startswith("right") for key in rows[0].loop) - 1,
        unfinished=name_unfinished(rows),
        load={"least": min(loads), "most": max(loads)},
        total_s=sum(step["wall_s"] for step in done),
        axis_end=AXIS_END,
        beyond=any(row.ratio(quick=quick) > AXIS_END for row in rows for quick in (True, False)),
        least=LEAST,
        goal=GOAL,
        reached={
            "With `kc-validate --quick`": sort_by_ratio(rows, quick=True),
            "With the whole verdict": sort_by_ratio(rows, quick=False),
        },
        unit_goal=unit_goal,
        units=sort_by_unit_ratio(rows, unit_goal),
        **more,
    )


def make_files(
    results: dict[str, Any], folder: Path, program: str, unit_goal: float = UNIT_GOAL
) -> dict[str, str]:
    """Return the text of each file of a page by its name. ``program``: whose build is compared."""
    rows = [Row(kernel) for kernel in results["kernels"].values()]
    return {
        "README.md": render(results, rows, folder, unit_goal),
        "ratio.svg": draw_ratios(rows),
        "build.svg": draw_builds(rows, program),
        "loop.svg": draw_loops(rows),
        "project.svg": draw_projects(rows),
    }


class Row:
    """What the page says of one kernel."""

    def __init__(self, kernel: dict[str, Any]) -> None:
        self.name = kernel["name"]
        self.kernel, self.extract, self.build = kernel, kernel["extract"], kernel["loop"]["build"]
        self.loop = kernel["loop"]["rows"]
        median = kernel["loop"]["median"]
        self.recompile, self.validate, self.quick = median["recompile"], median["validate"], median["quick"]

    def ours(self, unit: str = "cpu_s", *, quick: bool = False) -> float:
        """Return the median loop in the project, with the whole verdict or with the quick one."""
        return float(self.recompile[unit] + (self.quick if quick else self.validate)[unit])

    def theirs(self, unit: str = "cpu_s") -> float:
        """Return the loop in the program's own build: build, and run the program."""
        return float(self.build["built"][unit] + self.build["test"][unit])

    def ratio(self, unit: str = "cpu_s", *, quick: bool = False) -> float:
        """Return how many times faster the loop in the project is."""
        return self.theirs(unit) / self.ours(unit, quick=quick)

    def recompile_ratio(self, unit: str = "cpu_s") -> float:
        """Return the same without the program's run and the verdict: compiling alone."""
        return float(self.build["built"][unit] / self.recompile[unit])

    def unit_ratio(self, unit: str = "cpu_s") -> float:
        """Return the same for one unit: a build compiles all that include the edited header."""
        return self.recompile_ratio(unit) / float(self.build["units"] or 1)

    def bound(self, ratio: float) -> str:
        """Write a ratio, which is at least this if the build was stopped."""
        return times(ratio) if self.build["finished"] else f"≥ {times(ratio)}"

    def verdict(self, name: str, *, quick: bool = False) -> str:
        """Return PASS or FAIL, of the unedited source, of all right edits, or of the wrong one."""
        which = "passed_quick" if quick else "passed"
        chosen = [row[which] for key, row in self.loop.items() if key.startswith(name)]
        if len(set(chosen)) > 1:
            return f"PASS {sum(chosen)} of {len(chosen)}"
        return "PASS" if chosen[0] else "FAIL"

    @property
    def builds(self) -> int:
        """Return how often the program's own build was measured."""
        return len(self.kernel["loop"]["builds"])

    @property
    def states(self) -> str:
        """Return from how many states the right edits were replayed for the whole verdict."""
        counts = sorted(row["pre_states"] for key, row in self.loop.items() if key.startswith("right"))
        return f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"

    @property
    def untried(self) -> list[str]:
        """Return what the verdicts on right edits left out, and why."""
        right = [row for key, row in self.loop.items() if key.startswith("right")]
        return list(dict.fromkeys(reason for row in right for reason in row["reasons"]))

    @property
    def parses_once(self) -> str:
        """Return whether only the first recompile, or the first one after an edit, parses the headers."""
        if not self.extract["precompiled"]:
            return "no"
        if self.kernel["file"] == self.extract["definition"]:
            return "yes"
        # A header in deps/ was edited. Results of earlier versions do not say what was kept.
        kept = self.kernel["loop"].get("precompiled", [])
        is_kept = any(name.startswith("edited") for name in kept)
        return "yes, but for the edited one" if is_kept else "no: each edit has them parsed again"

    @property
    def edits_dependency(self) -> bool:
        """Return whether the edited file is a header in deps/ of which the project precompiles the others."""
        return self.parses_once.startswith("yes,")

    @property
    def instructions(self) -> str:
        """Return whether the unedited source gives the captured instructions."""
        same = self.extract["unedited"]["same_instructions"]
        return "unknown" if same is None else "the same" if same else "others"


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


def sort_by_unit_ratio(rows: list[Row], goal: float) -> dict[str, list[str]]:
    """Name the kernels whose unit alone compiles this many times faster, and the others with their ratios."""
    return {
        "reached": [row.name for row in rows if row.unit_ratio() >= goal],
        "missed": [f"{row.name} ({row.bound(row.unit_ratio())})" for row in rows if row.unit_ratio() < goal],
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
    of_kernels = [row[name] for row in results["kernels"].values() for name in ("extract", "loop")]
    return [*own, *results["profiles"].values(), *results.get("tests", {}).values(), *of_kernels]


def draw_ratios(rows: list[Row]) -> str:
    """Draw the ratios of the loops: that in the program's own build to that in the project."""
    return draw_bars(
        "ratio of the loops",
        "times",
        ("processor time",),
        [
            Bar(
                f"{row.name}, {name}", (min(row.ratio(quick=quick), AXIS_END),), times(row.ratio(quick=quick))
            )
            for row in rows
            for name, quick in (("--quick", True), ("whole", False))
        ],
        {LEAST: f"{LEAST}", GOAL: f"{GOAL}"},
    )


def draw_builds(rows: list[Row], program: str) -> str:
    """Draw what the program's own build and its run take."""
    return draw_bars(
        f"{program}'s own build after the same edit",
        "seconds of processor time",
        ("cmake --build", "the program"),
        [
            Bar(row.name, (row.build["built"]["cpu_s"], row.build["test"]["cpu_s"]), seconds(row.theirs()))
            for row in rows
        ],
    )


def draw_loops(rows: list[Row]) -> str:
    """Draw what the loop in the project takes."""
    return draw_bars(
        "the loop in the project",
        "seconds of processor time",
        ("make recompile", "kc-validate, or with --quick"),
        [
            Bar(
                f"{row.name}, {name}",
                (row.recompile["cpu_s"], part["cpu_s"]),
                seconds(row.ours(quick=part is row.quick)),
            )
            for row in rows
            for name, part in (("--quick", row.quick), ("whole", row.validate))
        ],
    )


def draw_projects(rows: list[Row]) -> str:
    """Draw how the time from the command to the project is spent."""
    steps = list_steps(rows)
    return draw_bars(
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
    )


def seconds(value: float) -> str:
    """Write a time."""
    return f"{value:.1f} s" if value < 100 else f"{value:.0f} s"


def minutes(value: float) -> str:
    """Write a time that takes minutes."""
    return f"{value / 60:.0f} minutes"


def times(ratio: float) -> str:
    """Write a ratio, rounded down: a bar that was just missed is not shown as reached."""
    return f"{math.floor(10 * ratio) / 10:.1f}"


def size(value: int) -> str:
    """Write a number of bytes."""
    return f"{value / 2**20:.1f} MiB" if value >= 2**20 else f"{value / 2**10:.1f} KiB"


def code(text: str) -> str:
    """Write a name of C++ in a cell of a table."""
    return f"`{text}`".replace("|", "\\|")


def shorten(text: str, most: int = 160) -> str:
    """Return the beginning of a long name, with an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
