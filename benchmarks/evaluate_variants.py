"""kc-evaluate of a thousand variants, beside as many runs of kc-validate."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edit_loop import QUIET, Demo, demo
from frame import Figure, Run, at_least, at_most, row
from many_variants import CRASH, HANG, LEAK, RIGHT, WRONG, make_variants
from stopwatch import Seconds, Stopwatch

COUNT = 1000
FEW = 120  # for throughput against the number of workers
TIMEOUT = ("--timeout", "3")  # what a variant that hangs costs, both ways
# How many of each kind kc-validate judges alone: 24.
GROUPS = ((RIGHT, 10), (WRONG, 6), (CRASH, 3), (LEAK, 2), (HANG, 3))
PASSES = {**dict.fromkeys(RIGHT, True), **dict.fromkeys(LEAK, True)}
MEMORY_LIMIT_BYTES = 2 << 30
_SHARED = Path("/dev/shm")  # noqa: S108 - only looked at


@dataclass(frozen=True)
class Evaluated:
    """One run of kc-evaluate."""

    seconds: Seconds
    peak_bytes: int
    manifest: dict[str, Any]

    def outcomes(self) -> dict[str, bool]:
        """Whether each variant is right, by its file's name."""
        return {Path(each["name"]).name: each["outcome"] == "right" for each in self.manifest["variants"]}


class Watcher:
    """The peak of the memory of a process and all below it: PSS, and what they keep in /dev/shm."""

    def __init__(self, process_id: int) -> None:
        self._process_id = process_id
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._before = _measure_shared()
        self.peak_bytes = 0

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            total = sum(map(_measure_process, _find_family(self._process_id)))
            self.peak_bytes = max(self.peak_bytes, total + _measure_shared() - self._before)


def _find_family(top: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                status = Path(entry.path, "stat").read_text()
            except OSError:
                continue
            children.setdefault(int(status.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found, waiting = [], [top]
    while waiting:
        found.append(waiting.pop())
        waiting += children.get(found[-1], [])
    return found


def _measure_process(process_id: int) -> int:
    try:
        lines = Path(f"/proc/{process_id}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def _measure_shared() -> int:
    status = os.statvfs(_SHARED)
    return (status.f_blocks - status.f_bfree) * status.f_frsize


def evaluate(made: Demo, folder: Path, *words: str) -> Evaluated:
    """Evaluate all variants in a folder; none of them was judged before, and the store is thrown away."""
    store = made.folder / f"evaluated-{time.monotonic_ns()}"
    shutil.copytree(made.folder / "store", store)
    command = ["kc-evaluate", "@capture", str(folder), *TIMEOUT, *words, "--store", str(store), "--json"]
    watch = Stopwatch()
    process = subprocess.Popen(
        command, cwd=made.folder, env=made.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with Watcher(process.pid) as watcher:
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


def together(run: Run) -> Evaluated:
    """A thousand, by as many workers as there are cores."""
    return run.keep("evaluate.together", lambda: evaluate(demo(run), variants(run, COUNT)))


def alone(run: Run) -> tuple[Seconds, dict[str, bool]]:
    """How long kc-validate would take for all, by a sample of each kind, and the sample's verdicts."""

    def measure() -> tuple[Seconds, dict[str, bool]]:
        made, folder = demo(run), variants(run, COUNT)
        wall_s, cpu_s, verdicts = 0.0, 0.0, {}
        for kinds, count in GROUPS:
            files = [path for path in sorted(folder.glob("*.hsaco")) if _kind(path.name) in kinds]
            taken: list[Seconds] = []
            for path in files[:: max(1, len(files) // count)][:count]:
                watch = Stopwatch()
                words = ["kc-validate", "@capture", "--variant", str(path), *TIMEOUT]
                code = subprocess.run(words, cwd=made.folder, env=made.environment, check=False, **QUIET)
                taken.append(watch.stop())
                verdicts[path.name] = code.returncode == 0
            wall_s += statistics.mean(taken) * len(files)
            cpu_s += statistics.mean(each.cpu_s for each in taken) * len(files)
        total = Seconds(wall_s)
        total.cpu_s = cpu_s
        return total, verdicts

    return run.keep("evaluate.alone", measure)


def _kind(name: str) -> str:
    return name.removesuffix(".hsaco").partition("-")[2].rpartition("-")[0]


@row(
    "evaluate.speed",
    f"kc-evaluate, variants a second / runs of kc-validate, from a sample of {sum(n for _, n in GROUPS)}",
    at_least(8),
)
def speed(run: Run) -> Figure:
    one_by_one_s, _ = alone(run)
    found = together(run)
    note = f"{COUNT} variants in {found.seconds:.0f} s, by kc-validate in {one_by_one_s:.0f} s; "
    note += f"{run.threads} cores"
    return Figure(
        COUNT / found.seconds,
        "/s",
        COUNT / one_by_one_s,
        one_by_one_s / found.seconds,
        note=note,
        cpu_ratio=one_by_one_s.cpu_s / found.seconds.cpu_s,
    )


@row(
    "evaluate.verdicts",
    f"verdicts of {COUNT} that are as made, and as kc-validate's",
    at_least(COUNT, "value"),
)
def verdicts(run: Run) -> Figure:
    _, by_validate = alone(run)
    outcomes = together(run).outcomes()
    right = sum(outcomes[name] == PASSES.get(_kind(name), False) for name in outcomes)
    unlike = [name for name, passed in by_validate.items() if outcomes[name] != passed]
    return Figure(right - len(unlike), "verdicts", note=", ".join(unlike))


@row("evaluate.memory", f"kc-evaluate of {COUNT} variants, peak of all processes", at_most(2048, "value"))
def memory(run: Run) -> Figure:
    return Figure(together(run).peak_bytes / (1 << 20), "MiB", MEMORY_LIMIT_BYTES / (1 << 20))


@row("evaluate.workers", f"variants a second, a worker for each core / one worker, of {FEW}")
def workers(run: Run) -> Figure:
    made, folder = demo(run), variants(run, FEW)
    one = evaluate(made, folder, "--workers", "1").seconds
    more = {count: evaluate(made, folder, "--workers", str(count)).seconds for count in (2, run.threads)}
    rates = ", ".join(f"{count}: {FEW / seconds:.1f}/s" for count, seconds in {1: one, **more}.items())
    fastest = min(more.values())
    return Figure(FEW / fastest, "/s", FEW / one, one / fastest, note=f"workers {rates}")
