"""`make bench`: one table of measured figures, each with the ceiling of the same run and its bar.

usage: python benchmarks --build DIR [--only store,start.help] [--size GIB] [--json | --markdown]

A row that fails, or a part that cannot be loaded, is a miss that says why; the others are measured. Ctrl-C
ends the row at work and prints those before it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests/helpers"))

import machine
import pages
from frame import GIB, ROWS, Figure, Neighbours, NoRoomError, Row, Run, say

# Modules beside this one; each adds its rows, in the order of the table.
PARTS = (
    "store_memory",
    "capture_cost",
    "replay_restore",
    "store_objects",
    "start_up",
    "edit_loop",
    "evaluate_variants",
    "engine",
    "device_speed",
    "triton_launches",
)

# Only where --only or --list asks for them.
EXTRA_PARTS = {"fleet": "fleet_variants"}

HELP = """\
Rows are called GROUP.NAME; --only takes names and groups, and runs nothing else:

  make bench ARGS='--list'                       every row
  make bench ARGS='--only store,start.help'      a group, and one row
  make bench ARGS='--only store --size 2 --folder /dev/shm'
  make bench ARGS='--markdown'                   the table of docs/performance.md
  make bench ARGS='--only fleet'                 with Ray, which no other row needs

Ends with 1 if a bar is missed, or a row has no figure."""


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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


def load(parts: Sequence[str]) -> None:
    """Take in the rows of all parts; one that cannot be loaded becomes a row that says why."""
    for part in parts:
        try:
            importlib.import_module(part)
        except Exception as error:
            ROWS.append(Row(part, "its rows cannot be loaded", None, _failing(error)))


def _failing(error: Exception) -> Callable[[Run], Figure]:
    def measure(_run: Run) -> Figure:
        raise error

    return measure


def measure(row: Row, run: Run) -> Result:
    """Measure one row; one that fails is a miss that says why, and the next one goes on."""
    say(f"{row.name}: {row.what}")
    neighbours = Neighbours()
    figure, problem = None, ""
    try:
        figure = row.measure(run)
    except NoRoomError as error:
        problem = str(error)
    except (Exception, SystemExit) as error:
        problem = f"{type(error).__name__}: {error}"
    if figure is None:
        verdict = "MISS"
    elif row.bar is None:
        verdict = "-"
    else:
        met = row.bar.met(figure) if figure.met is None else figure.met
        verdict = "PASS" if met else "MISS"
    # Said now as well: the table would be lost with the process.
    say(f"{row.name}: {problem or f'{figure.value:.4g} {figure.unit}'} {verdict}")
    return Result(row.name, row.what, str(row.bar or ""), verdict, figure, problem, neighbours.cores())


def measure_all(rows: Sequence[Row], run: Run) -> list[Result]:
    """All rows, or those before an interrupt."""
    results = []
    try:
        for row in rows:
            results.append(measure(row, run))
    except KeyboardInterrupt:
        say(f"interrupted: {len(results)} of {len(rows)} rows were measured")
    return results


def main() -> None:
    options = _parser().parse_args()
    groups = {word.partition(".")[0] for word in options.only.split(",")}
    load([*PARTS, *(part for group, part in EXTRA_PARTS.items() if options.list or group in groups)])
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
        results = measure_all(wanted, run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    facts["load after"] = " ".join(f"{load:.1f}" for load in os.getloadavg())
    facts["settings"] = f"{options.size:g} GiB, {options.rounds} rounds, {len(results)} of {len(ROWS)} rows"
    if options.json:
        print(json.dumps({"machine": facts, "rows": [asdict(result) for result in results]}, indent=1))
    elif options.markdown:
        print(pages.markdown(facts, results))
    else:
        pages.table(facts, results)
    if len(results) < len(wanted) or any(result.verdict == "MISS" for result in results):
        sys.exit(1)


def _chosen(name: str, only: str) -> bool:
    return not only or any(name == word or name.startswith(word + ".") for word in only.split(","))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make bench ARGS=…",
        description=__doc__.split("\n")[0],
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--build", type=Path, required=True, help="folder with the native parts; make gives it"
    )
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
