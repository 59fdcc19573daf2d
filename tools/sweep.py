"""`make sweep`: run a sample of the tests of ROCm's libraries on the software GPU, and print the results.

The tests are in Debian's packages: nobody wrote them for this project. A seed chooses the sample, so that
each night can try other tests, and a sample can be run again. Exit code 1: a test failed or was refused;
130: Ctrl-C, after which the table shows what has run.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random, SystemRandom
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from sweep_programs import Programs, Stopped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# What was refused is told by the software GPU, in a file and on standard error.
REFUSALS = "KERNCAP_SOFTGPU_REFUSALS"
OURS = "kerncap software GPU: "
STATES = ("passed", "failed", "refused", "too long", "skipped")
# Libraries, and the packages of their tests.
LIBRARIES = {
    "rocPRIM": "librocprim-tests",
    "hipCUB": "libhipcub-tests",
    "rocThrust": "librocthrust-tests",
    "rocFFT": "librocfft0-tests",
    "rocSOLVER": "librocsolver0-tests",
    "rocBLAS": "librocblas4-tests",
    "hipSPARSE": "libhipsparse1-tests",
    "llama.cpp": "llama.cpp-tests",
}
# Libraries whose programs are one test each, and the arguments that keep them short.
WHOLE_PROGRAMS = {"rocThrust": ("--sizes=tiny",)}
BACKEND_OPS = "test-backend-ops"  # of llama.cpp: its other tests use no GPU
ROCBLAS = "rocblas-test"
ROCBLAS_DATA = Path("/usr/share/librocblas4-tests/data/rocblas_gtest.data")
ROCBLAS_RECORDS = 500
# Tests that need files which no package has: earlier results of rocFFT, matrices of hipSPARSE.
NEVER_RUN = {"rocFFT": ("bitwise_repro_test",), "hipSPARSE": ("_bin.",)}
LIST_LIMIT_S = 180  # rocSOLVER takes half a minute to list its tests


@dataclass(frozen=True)
class Case:
    """One test: its library, its name, and the command that runs it."""

    library: str
    name: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What became of a case. ``state``: one of STATES; ``why``: a line of its output, unless it passed."""

    case: Case
    state: str
    took_s: float
    why: str = ""


@dataclass
class Library:
    """The tests of one library, in the order of a seed. Each list of tests is read when it is needed."""

    name: str
    files: list[Path]
    chance: Random
    programs: Programs
    unread: list[Path] = field(init=False)
    lists: list[list[Case]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Shuffle the programs."""
        self.unread = sorted(self.files)
        self.chance.shuffle(self.unread)

    def draw(self) -> Case | None:
        """Draw a test that was not drawn before, of one more program each time; None if there is none."""
        if self.unread:
            program = self.unread.pop()
            try:
                cases = list_cases(self.name, program, self.programs, self._choose_data(program))
            except subprocess.TimeoutExpired:
                self.problems.append(f"{program} did not list its tests in {LIST_LIMIT_S} s")
                cases = []
            self.chance.shuffle(cases)
            self.lists.append(cases)
        self.lists = [cases for cases in self.lists if cases]
        return self.chance.choice(self.lists).pop() if self.lists else None

    def _choose_data(self, program: Path) -> tuple[str, ...]:
        """Return the options that make rocBLAS's program read a few of its 1.6 million records.

        It reads all of its file, 0.9 GB, before each test: that took over two minutes.
        """
        if program.name != ROCBLAS:
            return ()
        with tempfile.NamedTemporaryFile(prefix="sweep-", suffix=".data", delete=False) as file:
            file.write(sample_records(ROCBLAS_DATA, ROCBLAS_RECORDS, self.chance))
        atexit.register(os.unlink, file.name)
        return ("--data", file.name)


def sample_records(source: Path, count: int, chance: Random) -> bytes:
    """Return a file of rocBLAS's tests with some of its records.

    Its form: "rocBLAS", a zero byte, one record as a pattern, "ROCblas", a zero byte, records of equal size.
    """
    with source.open("rb") as file:
        head = file.read(1 << 16)
        end = head.find(b"ROCblas\0") + 8
        size = end - 16
        if not head.startswith(b"rocBLAS\0") or size <= 0:
            sys.exit(f"{source} is no file of rocBLAS's tests")
        records = [head[:end]]
        total = (source.stat().st_size - end) // size
        for place in sorted(chance.sample(range(total), min(count, total))):
            file.seek(end + place * size)
            records.append(file.read(size))
    return b"".join(records)


def list_cases(library: str, program: Path, programs: Programs, options: tuple[str, ...] = ()) -> list[Case]:
    """List the tests of a program: of GoogleTest, or operators of llama.cpp, or the program itself."""
    if library in WHOLE_PROGRAMS:
        return [Case(library, program.name, (str(program), *WHOLE_PROGRAMS[library]))]
    words = ("--list-ops",) if program.name == BACKEND_OPS else ("--gtest_list_tests",)
    _, told = programs.run([str(program), *options, *words], LIST_LIMIT_S, stderr=subprocess.DEVNULL)
    if program.name == BACKEND_OPS:
        return [
            Case(library, name, (str(program), "test", "-b", "ROCm0", "-o", name))
            for name in map(str.strip, told.splitlines())
            if name.isupper() and name.replace("_", "").isalnum()
        ]
    never = ("DISABLED_", *NEVER_RUN.get(library, ()))
    return [
        Case(library, f"{program.name} {name}", (str(program), *options, f"--gtest_filter={name}"))
        for name in parse_gtest_list(told)
        if not any(part in name for part in never)
    ]


def parse_gtest_list(told: str) -> Iterator[str]:
    """Yield the names of tests that a program of GoogleTest lists: suites, and indented their tests."""
    suite = ""
    for line in told.splitlines():
        name = line.partition("  #")[0].rstrip()
        if name.startswith("  ") and suite:
            yield suite + name.strip()
        else:
            suite = name if name.endswith(".") and " " not in name else ""


def find_programs(package: str) -> list[Path]:
    """Find the tests of a package: what it installs and can be run."""
    told = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True, check=False)
    paths = (Path(line) for line in told.stdout.splitlines() if "/libexec/" in line)
    programs = [path for path in paths if path.is_file() and os.access(path, os.X_OK) and is_elf(path)]
    return [path for path in programs if path.name == BACKEND_OPS] or programs


def is_elf(path: Path) -> bool:
    """Whether a file is an ELF program, not a script or a library."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF" and ".so" not in path.name


def run_case(case: Case, programs: Programs, limit_s: float) -> Outcome:
    """Run a test, and say what became of it."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sweep-") as folder:
        refusals = Path(folder) / "refusals"
        variables = {**os.environ, REFUSALS: str(refusals)}
        try:
            code, told = programs.run(
                case.words, limit_s, cwd=folder, env=variables, stderr=subprocess.STDOUT
            )
        except subprocess.TimeoutExpired:
            return Outcome(case, "too long", time.monotonic() - begun, f"over {limit_s:g} s")
        refused = refusals.read_text(errors="replace").strip() if refusals.exists() else ""
    state, why = judge(code, told, refused)
    return Outcome(case, state, time.monotonic() - begun, why)


def judge(code: int, told: str, refused: str) -> tuple[str, str]:
    """Return a state of STATES, and the line that shows it."""
    lines = told.splitlines()
    ours = next((line for line in lines if OURS in line), "") or refused.partition("\n")[0]
    if ours:
        return "refused", ours
    if code != 0:
        shown = next((line for line in lines if "[  FAILED  ]" in line or "error" in line.lower()), "")
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return "failed", f"{how}: {shown.strip()}" if shown else how
    if "[  PASSED  ] 0 tests" in told or "0/0 tests passed" in told:
        return "skipped", next((line.strip() for line in lines if "SKIPPED" in line), "it ran no test")
    return "passed", ""


def sample(libraries: Sequence[Library]) -> Iterator[Case]:
    """Yield tests of all libraries by turns."""
    while drawn := [case for library in libraries if (case := library.draw()) is not None]:
        yield from drawn


class Sweep:
    """Tests of libraries until a time is over, or Ctrl-C. ``outcomes``: what has run."""

    def __init__(
        self, libraries: Sequence[Library], programs: Programs, minutes: float, limit_s: float
    ) -> None:
        """``limit_s``: for one test."""
        self.outcomes: list[Outcome] = []
        self._end = time.monotonic() + 60 * minutes
        self._cases, self._lock = sample(libraries), threading.Lock()
        self._programs, self._limit_s = programs, limit_s

    def run(self, workers: int) -> None:
        """Run tests. Raises KeyboardInterrupt on Ctrl-C, when no test runs any more."""
        with ThreadPoolExecutor(workers) as pool:
            started = [pool.submit(self._work) for _ in range(workers)]
            try:
                for worker in started:
                    worker.result()
            except BaseException:
                self._programs.stop()
                raise

    def _work(self) -> None:
        """Run tests, one after the other."""
        with suppress(Stopped):
            while (left := self._end - time.monotonic()) > 0:
                with self._lock:
                    case = next(self._cases, None)
                if case is None:
                    return
                outcome = run_case(case, self._programs, min(self._limit_s, max(left, 1)))
                if outcome.state == "too long" and time.monotonic() >= self._end:
                    return  # it was the sweep's time that ended
                self.outcomes.append(outcome)
                mark = "" if outcome.state == "passed" else f": {outcome.why}"
                shown = f"{outcome.state:8} {outcome.took_s:5.1f} s  {case.library}: {case.name}{mark}"
                print(shown, flush=True)


def make_table(libraries: Sequence[Library], outcomes: Sequence[Outcome]) -> Table:
    """Make the table of all libraries."""
    table = Table("library", "run", *STATES, "s for each")
    for library in libraries:
        own = [outcome for outcome in outcomes if outcome.case.library == library.name]
        counts = Counter(outcome.state for outcome in own)
        mean = f"{sum(outcome.took_s for outcome in own) / len(own):.1f}" if own else ""
        table.add_row(library.name, str(len(own)), *(str(counts[state]) for state in STATES), mean)
    return table


def main() -> None:
    """Parse the command line, run the sample, and report."""
    parser = argparse.ArgumentParser(prog="make sweep", description=(__doc__ or "").partition("\n")[2])
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1 << 31), help="of the sample")
    parser.add_argument("--minutes", type=float, default=55, help="how long to go on (default: 55)")
    parser.add_argument(
        "--limit", type=float, default=60, metavar="SECONDS", help="for one test (default: 60)"
    )
    parser.add_argument(
        "--library", action="append", choices=list(LIBRARIES), help="only this one; repeatable"
    )
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="tests at a time")
    parser.add_argument("--json", type=Path, help="also write the results to a file")
    options = parser.parse_args()
    if options.json:
        try:
            options.json.touch()  # not after an hour
        except OSError as error:
            parser.error(
                f"cannot write {options.json}: {error.strerror}; the root has only the checkout's folder"
            )
    print(f"seed {options.seed}: `make sweep ARGS='--seed {options.seed}'` draws the same tests", flush=True)
    programs = Programs()
    libraries = [
        Library(name, find_programs(LIBRARIES[name]), Random(f"{options.seed} {name}"), programs)  # noqa: S311
        for name in options.library or LIBRARIES
    ]
    absent = [library.name for library in libraries if not library.files]
    if absent:
        sys.exit(
            f"no tests of {', '.join(absent)} are installed: run `make sweep`, which makes a root with them"
        )
    run = Sweep(libraries, programs, options.minutes, options.limit)
    code = 0
    try:
        run.run(options.workers)
    except KeyboardInterrupt:
        code = 130
    code = code or any(outcome.state in ("failed", "refused") for outcome in run.outcomes)
    Console().print(make_table(libraries, run.outcomes))
    if code == 130:
        count = len(run.outcomes)
        print(f"interrupted after {count} test{'s' * (count != 1)}")
    for problem in (line for library in libraries for line in library.problems):
        print(problem)
    if options.json:
        report = {
            "seed": options.seed,
            "interrupted": code == 130,
            "outcomes": [asdict(outcome) for outcome in run.outcomes],
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
