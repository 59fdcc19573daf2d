"""The machine under the measurements: running programs, and what it can do by itself."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from table import Table

TESTS = Path(__file__).parents[1]
BENCHMARKS = TESTS.parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
from plain_loops import PlainLoops  # noqa: E402 - the ceilings of `make bench`

GIB = 1 << 30
CHUNK = 1 << 20
SAMPLE_GIB = 4  # of incompressible bytes, for ceilings


def run(*words: object, store: Path | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; its output is kept."""
    environment = dict(os.environ)
    if store is not None:
        environment["KERNCAP_STORE"] = str(store)
    done = subprocess.run(
        [str(word) for word in words], env=environment, capture_output=True, text=True, check=False
    )
    if check and done.returncode != 0:
        raise RuntimeError(f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


@dataclass
class Bench:
    """What every row is measured with. ``gib``: of the large capture; ``rounds``: of most rows."""

    table: Table
    folder: Path  # on the disk
    memory: Path  # in /dev/shm
    arch: str
    gib: int
    rounds: int
    held_s: list[float] = field(default_factory=list)  # how long the large captures held the program
    whole_s: list[float] = field(default_factory=list)  # how long they took

    def build(self) -> None:
        """Compile the programs, and the plain loops that are the ceilings."""
        flags = [f"-arch={self.arch}", "-O2"]
        commands = [
            ["nvcc", *flags, TESTS / f"programs/{name}.cu", "-o", self.folder / name]
            for name in ("big_state", "launch_loop", "start_up")
        ]
        commands.append(["c++", "-O3", "-std=c++20", "-shared", "-fPIC", BENCHMARKS / "plain_loops.cpp",
                         "-o", self.folder / "libplain_loops.so", "-lcrypto", "-lpthread"])  # fmt: skip
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda command: run(*command), commands))

    @cached_property
    def loops(self) -> PlainLoops:
        """The native loops, on all cores."""
        return PlainLoops(self.folder / "libplain_loops.so", len(os.sched_getaffinity(0)))

    @cached_property
    def sample(self) -> np.ndarray:
        """Bytes that nothing compresses: uint8[SAMPLE_GIB * GIB]."""
        data = np.empty(SAMPLE_GIB * GIB, np.uint8)
        self.loops.fill(data, 1)
        return data

    @contextmanager
    def program(self) -> Iterator[None]:
        """The captured program runs beside, as it does beside a capture: its own thread keeps a core busy."""
        words = [str(self.folder / "big_state"), "1", str(1 << 30)]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
            time.sleep(1.0)  # until it is in its loop
            try:
                yield
            finally:
                process.kill()

    def hash_rate(self) -> float:
        """GB/s of hashing the sample's chunks on all cores, while the program runs beside."""
        with self.program():
            return self.sample.size / self.loops.hash(self.sample, CHUNK) / 1e9

    def hash_and_write_rate(self, folder: Path, gib: int = SAMPLE_GIB) -> float:
        """GB/s of hashing chunks and writing each into a file, of ``gib``, while the program runs beside."""
        times = gib // SAMPLE_GIB
        with self.program():
            seconds = 0.0
            for number in range(times):
                (folder / str(number)).mkdir(parents=True)
                seconds += self.loops.hash_and_write(self.sample, CHUNK, folder / str(number))
        run("rm", "-r", folder)
        return times * self.sample.size / seconds / 1e9

    def touch(self, gib: int) -> None:
        """Use so much memory, and give it back: a virtual machine is slower at pages that it never had."""
        self.loops.fill(np.empty(gib * GIB, np.uint8), 2)

    def disk_rate(self, folder: Path) -> float:
        """GB/s of writing the sample's chunks as files, until the disk has them."""

        def write(begin: int) -> None:
            (folder / str(begin)).write_bytes(memoryview(self.sample)[begin : begin + CHUNK])

        folder.mkdir(parents=True)
        begin = time.perf_counter()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(write, range(0, self.sample.size, CHUNK)))
        os.sync()
        seconds = time.perf_counter() - begin
        run("rm", "-r", folder)
        return self.sample.size / seconds / 1e9


class SmClock:
    """The clock of the GPU's processors while it had something to do, as the block ran, in MHz."""

    def __enter__(self) -> SmClock:
        fields = "--query-gpu=clocks.sm,utilization.gpu"
        words = ["nvidia-smi", fields, "--format=csv,noheader,nounits", "-lms", "20"]
        self._sampler = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self.range_mhz = (0, 0)
        return self

    def __exit__(self, *_: object) -> None:
        self._sampler.terminate()
        lines = [line.split(", ") for line in self._sampler.communicate()[0].splitlines()]
        busy = [int(line[0]) for line in lines if len(line) == 2 and line[1] not in ("0", "")]
        if busy:
            self.range_mhz = (min(busy), max(busy))


def device_to_host() -> float:
    """GB/s into pinned memory, through two buffers of 64 MiB; the best of three."""
    source = torch.empty(4 * GIB, dtype=torch.uint8, device="cuda")
    buffers = [torch.empty(64 << 20, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    best = 0.0
    for _ in range(3):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for i, piece in enumerate(source.split(64 << 20)):
            buffers[i % 2].copy_(piece, non_blocking=True)
        torch.cuda.synchronize()
        best = max(best, source.numel() / (time.perf_counter() - begin) / 1e9)
    del source, buffers
    torch.cuda.empty_cache()
    return best
