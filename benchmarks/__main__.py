"""`make bench`: one table of measured figures, each with the ceiling of the same run and its bar.

usage: python benchmarks --build DIR [--only store,start.help] [--size GIB] [--json | --markdown]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests/helpers"))

import machine
import pages
from frame import GIB, ROWS, Figure, Neighbours, NoRoomError, Row, Run, say

# Each adds its rows, in the order of the table.
import store_memory  # isort: skip
import replay_restore  # isort: skip
import store_objects  # isort: skip
import start_up  # isort: skip
import edit_loop  # isort: skip
import engine  # isort: skip

PARTS = (store_memory, replay_restore, store_objects, start_up, edit_loop, engine)


@dataclass(frozen=True)
class Result:
    """A row with its figure, or with the reason for having none."""

    name: str
    what: str
    bar: str
    verdict: str
    figure: Figure | None
    problem: str
    neighbour_cores: float


def measure(row: Row, run: Run) -> Result:
    """Measure one row; one that fails is a miss that says why, and the next one goes on."""
    say(f"{row.name}: {row.what}")
    neighbours = Neighbours()
    figure, problem = None, ""
    try:
        figure = row.measure(run)
    except NoRoomError as error:
        problem = str(error)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    if figure is None:
        verdict = "MISS"
    elif row.bar is None:
        verdict = "-"
    else:
        met = row.bar.met(figure) if figure.met is None else figure.met
        verdict = "PASS" if met else "MISS"
    return Result(row.name, row.what, str(row.bar or ""), verdict, figure, problem, neighbours.cores())


def main() -> None:
    options = _parser().parse_args()
    wanted = [row for row in ROWS if _chosen(row.name, options.only)]
    if options.list:
        for row in wanted:
            print(f"{row.name:16} {row.what}")
        return
    if not wanted:
        sys.exit(f"bench: no row is called {options.only!r}; --list shows them")
    folder = Path(tempfile.mkdtemp(prefix="kerncap-bench-", dir=options.folder))
    try:
        facts = machine.describe(folder)
        run = Run(int(options.size * GIB), options.rounds, folder, options.build)
        results = [measure(row, run) for row in wanted]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    facts["load after"] = " ".join(f"{load:.1f}" for load in os.getloadavg())
    facts["settings"] = f"{options.size:g} GiB, {options.rounds} rounds, {len(wanted)} of {len(ROWS)} rows"
    if options.json:
        print(json.dumps({"machine": facts, "rows": [asdict(result) for result in results]}, indent=1))
    elif options.markdown:
        print(pages.markdown(facts, results))
    else:
        pages.table(facts, results)
    if any(result.verdict == "MISS" for result in results):
        sys.exit(1)


def _chosen(name: str, only: str) -> bool:
    return not only or any(name == word or name.startswith(word + ".") for word in only.split(","))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench ARGS=…", description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, required=True, help="build folder with the native parts")
    parser.add_argument("--only", default="", metavar="NAMES", help="rows or groups: store,start.help")
    parser.add_argument("--size", type=float, default=8.0, metavar="GIB", help="of memory (default: 8)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="of a comparison (default: 3)")
    parser.add_argument("--folder", type=Path, help="on the disk to measure (default: /tmp)")
    parser.add_argument("--list", action="store_true", help="the names of the rows")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="everything, as JSON")
    form.add_argument("--markdown", action="store_true", help="the table of docs/performance.md")
    return parser


if __name__ == "__main__":
    main()
