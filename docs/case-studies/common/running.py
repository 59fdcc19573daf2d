"""Runs commands, measures them, and keeps the result of each step in a file, so that a study can go on."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ending import adopt_orphans, end_children, reap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

# Finds and downloads source archives of PyPI. pip would also run their setup.py, which may want anything.
DOWNLOADER = "unearth==0.19.0"
# Of this checkout's own build; none of them is for another project's.
NOT_FOR_BUILDS = (
    "LD_PRELOAD",
    "KERNCAP_SOFTGPU",
    "CCACHE_BASEDIR",
    "CCACHE_NOHASHDIR",
    "CCACHE_COMPILERCHECK",
)


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
    adopt_orphans()
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with log.open("a") as errors:
        print(f"$ {line}", file=errors, flush=True)
        process = subprocess.Popen(
            [str(word) for word in words],
            cwd=cwd,
            env={name: value for name, value in merged.items() if value is not None},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        try:
            out = process.communicate()[0].decode(errors="replace")
        except KeyboardInterrupt:
            end_children()
            raise
        wall = time.monotonic() - began
        reap()  # what a stopped command left behind: its time counts, too
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{out}[{process.returncode}, {wall:.2f} s]", file=errors, flush=True)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if process.returncode not in expect:
        raise StepError(f"`{line[:200]}` ended with {process.returncode}; its output is in {log}")
    return Done(out, wall, cpu, process.returncode)


class Study(ABC):
    """The study's folder: what was fetched and built, the store, projects, and a result of each step."""

    targets: tuple[str, ...] = ()  # what is built; none means all

    def __init__(self, folder: Path, jobs: int, build_limit_s: int) -> None:
        self.folder, self.jobs, self.build_limit_s = folder, jobs, build_limit_s
        self.source, self.build = folder / "source", folder / "build"
        self.original = folder / "original"  # the files that are edited, as they were
        self.store = folder / "store"
        self._planned: list[str] | None = None

    @abstractmethod
    def program(self, name: str) -> tuple[str | Path, ...]:
        """Return the command of one of the study's programs."""

    @property
    @abstractmethod
    def edited(self) -> Path:
        """The folder in the source that has the files that are edited."""

    @property
    def build_command(self) -> tuple[str | Path, ...]:
        """The command that brings the build up to date."""
        targets = ("--target", *self.targets) if self.targets else ()
        return ("cmake", "--build", self.build, "-j", str(self.jobs), *targets)

    def log(self, step: str) -> Path:
        """Return the file with the commands of a step and what they printed."""
        return self.folder / "logs" / f"{step}.log"

    def list_steps(self, work: Callable[[], object]) -> list[str]:
        """Return the names of the steps of ``work``, in order, without doing any."""
        names: list[str] = []
        self._planned = names
        try:
            work()
        finally:
            self._planned = None
        return names

    def step_file(self, name: str) -> Path:
        """Return the file that has a step's result, if the step was done."""
        return self.folder / "steps" / f"{name}.json"

    def step(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return a step's result. The step is skipped if its result is there from an earlier run."""
        if self._planned is not None:
            self._planned.append(name)
            return {}
        file = self.step_file(name)
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

    def fetch(self, archive: str, sha256: str, inside: str) -> dict[str, Any]:
        """Fetch a source archive of PyPI, compare its digest, and unpack what is ``inside``."""
        file, log = self.folder / archive, self.log("fetch")
        if not file.exists():
            name, version = archive.removesuffix(".tar.gz").rsplit("-", 1)
            packages = self.folder / "downloader"
            run("pip", "install", "--upgrade", "--target", packages, DOWNLOADER, log=log)
            words = ("-m", "unearth", "--no-binary", "--download", self.folder, f"{name}=={version}")
            run("python3", *words, log=log, variables={"PYTHONPATH": str(packages)})
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        if digest != sha256:
            raise StepError(f"{file} has the SHA-256 {digest}, not {sha256}\n  next: remove it")
        if not self.source.exists():
            partial = self.folder / "source.partial"
            shutil.rmtree(partial, ignore_errors=True)
            with tarfile.open(file) as opened:
                for member in opened:
                    if member.name.startswith(inside):
                        member.name = member.name.removeprefix(inside)
                        opened.extract(member, partial, filter="data")
            partial.rename(self.source)
        if not self.original.exists():
            shutil.copytree(self.edited, self.original)
        return {"archive": archive, "sha256": sha256}

    def configure_and_build(self, source: Path, options: Sequence[str]) -> dict[str, Any]:
        """Configure with CMake and Ninja, and build. ccache keeps what was compiled."""
        log = self.log("build")
        variables = {**build_variables(cached=True), **self.compiler_variables()}
        if not (self.build / "build.ninja").exists():
            # By its name: a checkout's build is in a folder that changes, and CMake would keep the path.
            where = ("-S", source, "-B", self.build, "-G", "Ninja", "-DCMAKE_MAKE_PROGRAM:STRING=ninja")
            run("cmake", *where, *options, log=log, variables=variables)
        run(*self.build_command, log=log, variables=variables)
        version = self.compiler_version()
        seconds = time_steps(self.read_ninja_log())
        return {
            "steps": len(seconds),
            "added_up_s": round(sum(seconds.values())),
            "compiler": version,
            "options": list(options),
            "jobs": self.jobs,
        }

    def compiler_variables(self) -> dict[str, str]:
        """Return what tells CMake the compiler of kernels."""
        return {"HIPCXX": f"{run('hipconfig', '-l', log=self.log('build')).out.strip()}/clang++"}

    def compiler_version(self) -> str:
        """Return the line in which that compiler says its version."""
        compiler = self.compiler_variables()["HIPCXX"]
        return run(compiler, "--version", log=self.log("build")).out.splitlines()[0]

    def read_ninja_log(self) -> set[str]:
        """Return the lines of ninja's log, one for each step."""
        lines = (self.build / ".ninja_log").read_text().splitlines()
        return {line for line in lines if not line.startswith("#")}

    def manifest(self, artifact: str, store: Path) -> dict[str, Any]:
        """Return an artifact's manifest."""
        words = ["kc-show", "--json", "--store", str(store), artifact]
        shown: dict[str, Any] = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
        return shown


def build_variables(*, cached: bool) -> Mapping[str, str | None]:
    """Return what compilers get beside the environment; none removes a variable."""
    return {**dict.fromkeys(NOT_FOR_BUILDS), "CCACHE_DISABLE": None if cached else "1"}


def time_steps(lines: set[str]) -> dict[str, float]:
    """Return how long the step of each output took, in seconds. A line begins with its start and end."""
    fields = [line.split("\t") for line in lines]
    return {words[3]: (int(words[1]) - int(words[0])) / 1000 for words in fields}
