"""Runs commands, measures them, and keeps the result of each step in a file, so that a study can go on."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


class StepError(Exception):
    """A command ended otherwise than expected."""


@dataclass(frozen=True)
class Done:
    """A command that has ended: its output, and what it took. Processor time includes its children's."""

    out: str
    wall_s: float
    cpu_s: float
    exit_code: int

    @property
    def cost(self) -> dict[str, float]:
        """What it took, for the results."""
        return {"wall_s": round(self.wall_s, 3), "cpu_s": round(self.cpu_s, 3)}


def run(
    *words: str | Path,
    log: Path,
    cwd: Path | None = None,
    variables: Mapping[str, str | None] | None = None,
    expect: Sequence[int] = (0,),
) -> Done:
    """Run a command. Its standard error goes to the log. Raises StepError for another exit code."""
    line = " ".join(str(word) for word in words)
    merged = {**os.environ, **(variables or {})}
    print(f"  $ {line[:160]}", file=sys.stderr, flush=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with log.open("a") as errors:
        print(f"$ {line}", file=errors, flush=True)
        done = subprocess.run(
            [str(word) for word in words],
            cwd=cwd,
            env={name: value for name, value in merged.items() if value is not None},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            check=False,
        )
        wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        out = done.stdout.decode(errors="replace")
        print(f"{out}[{done.returncode}, {wall:.2f} s]", file=errors, flush=True)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode not in expect:
        raise StepError(f"`{line[:200]}` ended with {done.returncode}; its output is in {log}")
    return Done(out, wall, cpu, done.returncode)


class Study:
    """The study's folder: what was fetched and built, the store, projects, and a result of each step."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self.folder, self.jobs = folder, jobs
        self.source, self.build, self.model = folder / "source", folder / "build", folder / "model.gguf"
        self.original = folder / "original"  # the kernels' files, which no step edits
        self.store = folder / "store"
        (folder / "steps").mkdir(parents=True, exist_ok=True)

    def log(self, step: str) -> Path:
        """Return the file with the commands of a step and what they printed."""
        return self.folder / "logs" / f"{step}.log"

    def step(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return a step's result. The step is skipped if its result is there from an earlier run."""
        file = self.folder / "steps" / f"{name}.json"
        if not file.exists():
            print(f"{name} …", file=sys.stderr, flush=True)
            self.log(name).unlink(missing_ok=True)
            began = time.time()
            result = work()
            result["step"] = {
                "began": time.strftime("%Y-%m-%d %H:%M", time.gmtime(began)),
                "wall_s": round(time.time() - began, 1),
                "load": round(os.getloadavg()[2], 1),  # mean of 15 minutes
            }
            partial = file.with_suffix(".partial")
            partial.write_text(json.dumps(result, indent=1) + "\n")
            partial.replace(file)
        found: dict[str, Any] = json.loads(file.read_text())
        return found

    def manifest(self, artifact: str, store: Path) -> dict[str, Any]:
        """Return an artifact's manifest."""
        words = ["kc-show", "--json", "--store", str(store), artifact]
        shown: dict[str, Any] = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
        return shown
