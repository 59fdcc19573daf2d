"""kc-evaluate of a thousand variants, beside as many runs of kc-validate."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edit_loop import QUIET, Demo, demo
from evaluation_memory import EvaluationMemory
from frame import Figure, Run, at_least, at_most, row
from many_variants import CRASH, HANG, LEAK, RIGHT, WRONG, make_variants
from stopwatch import Seconds, Stopwatch

COUNT = 1000
FEW = 120  # for throughput against the number of workers
TIMEOUT = ("--timeout", "3")  # what a variant that hangs costs, both ways
# How many of each kind kc-validate judges alone: 24.
GROUPS = ((RIGHT, 10), (WRONG, 6), (CRASH, 3), (LEAK, 2), (HANG, 3))
# What each kind is made to be. A variant that could not be judged, or was refused, is none of these.
OUTCOMES = {
    **dict.fromkeys((*RIGHT, *LEAK), "right"),
    **dict.fromkeys((*WRONG, *CRASH, *HANG), "wrong"),
}
_OF_CODES = {0: "right", 1: "wrong"}  # exit codes of kc-validate
MEMORY_LIMIT_BYTES = 2 << 30


@dataclass(frozen=True)
class Evaluated:
    """One run of kc-evaluate."""

    seconds: Seconds
    peak_bytes: int
    manifest: dict[str, Any]

    def outcomes(self) -> dict[str, str]:
        """The outcome of each variant, by its file's name."""
        return {Path(each["name"]).name: each["outcome"] for each in self.manifest["variants"]}


def evaluate(made: Demo, folder: Path, *words: str, **variables: str) -> Evaluated:
    """Evaluate all variants in a folder; none of them was judged before, and the store is thrown away.

    variables: for the environment.
    """
    store = made.folder / f"evaluated-{time.monotonic_ns()}"
    shutil.copytree(made.folder / "store", store)
    command = ["kc-evaluate", "@capture", str(folder), *TIMEOUT, *words, "--store", str(store), "--json"]
    watch = Stopwatch()
    environment = {**made.environment, **variables}
    process = subprocess.Popen(
        command, cwd=made.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with EvaluationMemory(process.pid) as watcher:
        out, _ = process.communicate()
    seconds = watch.stop()
    shutil.rmtree(store)
    return Evaluated(seconds, watcher.peak_bytes, json.loads(out))


def variants(run: Run, count: int) -> Path:
    """So many variants, made once."""

    def make() -> Path:
        folder = demo(run).folder / f"variants-{count}"
        make_variants(folder, count)
        return folder

    return run.keep(f"evaluate.variants.{count}", make)


@dataclass(frozen=True)
class Both:
    """A thousand by kc-evaluate, and how long kc-validate would take for them, by a sample of each kind.

    verdicts: those of the sample, by the files' names.
    """

    together: Evaluated
    alone: Seconds
    verdicts: dict[str, str]


def both(run: Run) -> Both:
    """Half of the sample is judged before, and half after: what else happens here hits both alike."""

    def measure() -> Both:
        made, folder = demo(run), variants(run, COUNT)
        files = {
            place: [path for path in sorted(folder.glob("*.hsaco")) if _kind(path.name) in kinds]
            for place, (kinds, _) in enumerate(GROUPS)
        }
        sample = [
            (place, path)
            for place, (_, count) in enumerate(GROUPS)
            for path in files[place][:: max(1, len(files[place]) // count)][:count]
        ]
        taken: dict[int, list[Seconds]] = {place: [] for place in files}
        verdicts: dict[str, str] = {}

        def validate(some: list[tuple[int, Path]]) -> None:
            for place, path in some:
                watch = Stopwatch()
                words = ["kc-validate", "@capture", "--variant", str(path), *TIMEOUT]
                code = subprocess.run(words, cwd=made.folder, env=made.environment, check=False, **QUIET)
                taken[place].append(watch.stop())
                verdicts[path.name] = _OF_CODES.get(code.returncode, f"exit code {code.returncode}")

        validate(sample[::2])
        together = evaluate(made, folder)
        validate(sample[1::2])
        total = Seconds(sum(statistics.mean(taken[place]) * len(files[place]) for place in files))
        total.cpu_s = sum(
            statistics.mean(each.cpu_s for each in taken[place]) * len(files[place]) for place in files
        )
        return Both(together, total, verdicts)

    return run.keep("evaluate.both", measure)


def _kind(name: str) -> str:
    return name.removesuffix(".hsaco").partition("-")[2].rpartition("-")[0]


@row(
    "evaluate.speed",
    f"kc-evaluate, variants a second / runs of kc-validate, from a sample of {sum(n for _, n in GROUPS)}",
    at_least(8),
)
def speed(run: Run) -> Figure:
    measured = both(run)
    ours, theirs = measured.together.seconds, measured.alone
    note = f"{COUNT} variants in {ours:.0f} s, by kc-validate in {theirs:.0f} s; {run.threads} cores; "
    note += f"processor time {ours.cpu_s:.0f} s and {theirs.cpu_s:.0f} s"
    ratio, cpu_ratio = theirs / ours, theirs.cpu_s / ours.cpu_s
    return Figure(COUNT / ours, "/s", COUNT / theirs, ratio, note=note, cpu_ratio=cpu_ratio)


@row(
    "evaluate.verdicts",
    f"verdicts of {COUNT} that are as made, and as kc-validate's",
    at_least(COUNT, "value"),
)
def verdicts(run: Run) -> Figure:
    by_validate = both(run).verdicts
    outcomes = both(run).together.outcomes()
    wrong = {name: outcome for name, outcome in outcomes.items() if outcome != OUTCOMES[_kind(name)]}
    unlike = {name: outcome for name, outcome in by_validate.items() if outcomes[name] != outcome}
    note = ", ".join(f"{name}: {outcome}" for name, outcome in {**wrong, **unlike}.items())
    return Figure(len(outcomes) - len(wrong) - len(unlike), "verdicts", note=note)


@row("evaluate.memory", f"kc-evaluate of {COUNT} variants, peak of all processes", at_most(2048, "value"))
def memory(run: Run) -> Figure:
    return Figure(both(run).together.peak_bytes / (1 << 20), "MiB", MEMORY_LIMIT_BYTES / (1 << 20))


def by_workers(run: Run) -> dict[int, Seconds]:
    """How long a few take, by the number of workers."""

    def measure() -> dict[int, Seconds]:
        made, folder = demo(run), variants(run, FEW)
        counts = sorted({1, 2, run.threads, 2 * run.threads})
        return {count: evaluate(made, folder, "--workers", str(count)).seconds for count in counts}

    return run.keep("evaluate.by_workers", measure)


def find_ceiling(run: Run) -> float:
    """Variants a second, if all cores did nothing but what one worker takes of a core for them."""
    return FEW / (by_workers(run)[1].cpu_s / run.threads)


@row("evaluate.workers", f"variants a second, a worker for each core / all cores busy, of {FEW}")
def workers(run: Run) -> Figure:
    taken = by_workers(run)
    rates = ", ".join(f"{count}: {FEW / seconds:.1f}/s" for count, seconds in taken.items())
    rate, ceiling = FEW / taken[run.threads], find_ceiling(run)
    return Figure(rate, "/s", ceiling, rate / ceiling, note=f"workers {rates}")
