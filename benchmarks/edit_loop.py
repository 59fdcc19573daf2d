"""The edit loop beside rebuilding and running the application, and stages with nothing to do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from frame import Figure, Run, at_most, row
from stopwatch import Seconds, Stopwatch

# At least and at most: a busy machine needs more until the median holds still.
ROUNDS = (5, 15)
STARTS = (15, 45)
SOURCES = Path(__file__).resolve().parents[1] / "tests/programs/demo"
FLAGS = ("-O3", "-Iinclude", "--offload-arch=gfx90a")
UNITS = ("src/main.cpp", "src/matvec.hip")
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@dataclass(frozen=True)
class Demo:
    """The demo program, built, with the project of its kernel."""

    folder: Path
    executables: Path = Path(sys.executable).parent

    @property
    def environment(self) -> dict[str, str]:
        """With our executables first and a store of its own."""
        path = f"{self.executables}:{os.environ['PATH']}"
        # What a compiler cache saves is not what an edit costs.
        return {
            **os.environ,
            "PATH": path,
            "KERNCAP_STORE": str(self.folder / "store"),
            "CCACHE_DISABLE": "1",
        }

    def seconds(self, *words: object, cwd: str = ".") -> Seconds:
        """How long a command takes."""
        watch = Stopwatch()
        command = [str(word) for word in words]
        subprocess.run(command, cwd=self.folder / cwd, env=self.environment, check=True, **QUIET)
        return watch.stop()

    def touch(self, name: str) -> None:
        """Change a line of a file."""
        with (self.folder / name).open("a") as file:
            file.write(f"// {time.perf_counter_ns()}\n")

    def rebuild_and_run(self) -> Seconds:
        """What one does without us: the changed unit, the link, the program."""
        self.touch("app/src/matvec.hip")
        watch = Stopwatch()
        self.seconds("hipcc", *FLAGS, "-c", "src/matvec.hip", "-o", "matvec.o", cwd="app")
        self.seconds("hipcc", *FLAGS, "main.o", "matvec.o", "-o", "demo", cwd="app")
        self.seconds("kc-softgpu", "--target", "gfx90a", "--", "./demo", cwd="app")
        return watch.stop()

    def recompile(self) -> Seconds:
        """Touch a line, and rebuild the kernel alone."""
        self.touch("project/kernel_variant.cpp")
        return self.seconds("make", "-s", "-C", "project", "recompile")

    def loop(self) -> Seconds:
        """One turn: touch, recompile, replay, validate."""
        watch = Stopwatch()
        self.recompile()
        self.seconds("kc-replay", "project", "--variant", "project/optimized.hsaco")
        self.seconds("kc-validate", "project")
        return watch.stop()

    def verdict(self, *words: str) -> Seconds:
        """A verdict on the edited kernel, with other bytes in the part of its ELF header that is not used."""
        code = (self.folder / "project/optimized.hsaco").read_bytes()
        edited = self.folder / "edited.hsaco"
        edited.write_bytes(code[:9] + time.perf_counter_ns().to_bytes(7, "little") + code[16:])
        return self.seconds("kc-validate", "project", "--variant", edited, *words)

    def compile_alone(self) -> Seconds:
        """The compiler's own time for what `make recompile` does."""
        target = ("--offload-arch=gfx90a", "--offload-device-only", "--no-gpu-bundle-output")
        words = (
            "@compile_flags.rsp",
            "-ivfsoverlay",
            "vfs.yaml",
            "-o",
            "alone.hsaco",
            "translation_unit.cpp",
        )
        return self.seconds("hipcc", "-x", "hip", *target, *words, cwd="project")


def build(made: Demo) -> Demo:
    """Build the program in its empty folder, and take its kernel out."""
    shutil.copytree(SOURCES, made.folder / "app")
    entries = [
        {"directory": str(made.folder / "app"), "file": unit, "arguments": ["hipcc", *FLAGS, "-c", unit]}
        for unit in UNITS
    ]
    (made.folder / "app/compile_commands.json").write_text(json.dumps(entries))
    for unit in UNITS:
        made.seconds("hipcc", *FLAGS, "-c", unit, "-o", f"{Path(unit).stem}.o", cwd="app")
    made.seconds("hipcc", *FLAGS, "main.o", "matvec.o", "-o", "demo", cwd="app")
    made.seconds("kc-capture", "--kernel", "add_rows", "--dispatch", "1", "--", "./app/demo")
    made.seconds("kc-locate", "@capture", "--source-dir", "app")
    made.seconds("kc-generate", "@source", "--output", "project")
    made.loop()
    return made


def demo(run: Run) -> Demo:
    """The program of all rows, built once."""
    return run.keep("edit_loop.demo", lambda: build(Demo(run.place())))


@row("loop.turn", "touch, recompile, replay, validate / touch, rebuild and run the demo program")
def turn(run: Run) -> Figure:
    made = demo(run)
    ours, theirs, ratio, cpu = run.paired(made.loop, made.rebuild_and_run, *ROUNDS)
    note = f"{theirs / ours:.2f} times as fast; the demo itself ends in milliseconds: a real program does not"
    return Figure(ours, "s", theirs, ratio, note, cpu_ratio=cpu)


@row("loop.overhead", "the loop beyond the compiler's own time", at_most(1.0, "value"))
def overhead(run: Run) -> Figure:
    made = demo(run)
    ours, compiler, ratio, cpu = run.paired(made.loop, made.compile_alone, *ROUNDS)
    return Figure(ours - compiler, "s", compiler, ratio, cpu_ratio=cpu)


@row("loop.make", "make recompile beyond the compiler's own time", at_most(0.3, "value"))
def make_alone(run: Run) -> Figure:
    made = demo(run)
    ours, compiler, ratio, cpu = run.paired(made.recompile, made.compile_alone, *ROUNDS)
    return Figure(ours - compiler, "s", compiler, ratio, cpu_ratio=cpu)


def _verdict(run: Run, *words: str) -> Figure:
    made = demo(run)
    whole, quick, ratio, cpu = run.paired(
        lambda: made.verdict(*words), lambda: made.verdict("--quick"), *ROUNDS
    )
    return Figure(whole, "s", quick, ratio, cpu_ratio=cpu)


# It took 1.5 times as long before inputs had fresh values, and must not take 1.5 times as long as then.
@row("loop.first-verdict", "the first whole verdict on a kernel / a verdict with --quick", at_most(2.2))
def first_verdict(run: Run) -> Figure:
    return _verdict(run, "--fresh")


@row("loop.verdict", "a whole verdict on a further edit / a verdict with --quick", at_most(2.2))
def further_verdict(run: Run) -> Figure:
    return _verdict(run)


@row("loop.quick-verdict", "a verdict with --quick on a further edit / kc-validate --help", at_most(8.0))
def quick_verdict(run: Run) -> Figure:
    made = demo(run)
    ours, plain, ratio, cpu = run.paired(
        lambda: made.verdict("--quick"), lambda: made.seconds("kc-validate", "--help"), *ROUNDS
    )
    return Figure(ours, "s", plain, ratio, cpu_ratio=cpu)


def _unchanged(run: Run, stage: str, *words: str) -> Figure:
    made = demo(run)
    made.seconds(stage, *words)
    ours, plain, ratio, cpu = run.paired(
        lambda: made.seconds(stage, *words), lambda: made.seconds(stage, "--help"), *STARTS
    )
    return Figure(1000 * ours, "ms", 1000 * plain, ratio, cpu_ratio=cpu)


@row("start.locate", "kc-locate, nothing changed / kc-locate --help", at_most(1.5))
def locate_again(run: Run) -> Figure:
    return _unchanged(run, "kc-locate", "@capture", "--source-dir", "app")


@row("start.generate", "kc-generate, nothing changed / kc-generate --help", at_most(1.5))
def generate_again(run: Run) -> Figure:
    return _unchanged(run, "kc-generate", "@source", "--output", "project")


@row("start.validate", "kc-validate, nothing changed / kc-validate --help", at_most(1.5))
def validate_again(run: Run) -> Figure:
    return _unchanged(run, "kc-validate", "project")
