"""Restoring a snapshot for a replay, against getting the same memory out of the store in the same run."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

from frame import GIB, Figure, Run, at_least, row
from programs import SOURCES, Build, Program, compile_once
from stopwatch import Seconds, Stopwatch
from store_memory import GB, filled, noise

from kerncap_stages.digest import MemoryRef
from kerncap_stages.machine.native_paths import find_native_file
from kerncap_stages.machine.softgpu import fall_back
from kerncap_stages.replay.plan import VERSION_LINE
from kerncap_stages.store.chunks import read_chunk_list

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kerncap_stages.digest import Digest
    from kerncap_stages.store import Store

_TARGET = "gfx90a"
_BASE = 0x7D00_0000_0000


def write_plan(run: Run, store: Store, digest: Digest) -> Path:
    """Write the plan of a dispatch that changes nothing, with all of the memory in one region."""
    program = Program(SOURCES / "replay/idempotent.hip")
    code = compile_once(Build(program, _TARGET, "O3", device_only=True))
    memory = read_chunk_list(store, MemoryRef.to(digest))
    arguments = _BASE.to_bytes(8, "little") * 2 + bytes(4)
    lines = [
        VERSION_LINE,
        f"store {store.root}",
        f"code baseline {code}",
        "symbol _Z10scale_intoPKfPfi",
        f"isa amdgcn-amd-amdhsa--{_TARGET}",
        "software 1",
        "kernel_device 0",
        "grid 1 1 1",
        "block 1 1 1",
        f"kernarg {arguments.hex()}{bytes(256).hex()}",
        f"memory {digest} {memory.size_bytes} {memory.chunk_size_bytes}",
        *(f"chunk {chunk or '-'}" for chunk in memory.digests),
        f"region {_BASE:#x} {memory.size_bytes} device_coarse 0 0x1 0 0x0 4096 0 0 {digest} -",
    ]
    path = run.place() / "plan"
    path.write_text("\n".join(lines) + "\n")
    return path


def limited(run: Run) -> Run:
    """The same with 2 GiB at most: three times that is in memory at once, and rates do not depend on it."""
    return run.keep("replay", lambda: replace(run, size_bytes=min(run.size_bytes, 2 << 30), kept={}))


def measured(run: Run, get: Callable[[Store, Digest], Seconds]) -> Figure:
    """Restore in a replayer, and get the same memory, by turns."""
    # The software GPU holds it in memory too.
    run.need(run.size_bytes, 3 * run.size_bytes)
    store, digest = filled(run)
    plan = write_plan(run, store, digest)
    report = plan.with_name("report")
    environment = {**os.environ, **fall_back(os.environ, _TARGET)}
    environment["KERNCAP_SOFTGPU_VRAM_BYTES"] = str(run.size_bytes + (1 << 30))
    command = [str(find_native_file("kc-replay-hsa")), str(plan), "--no-compare", "--report", str(report)]

    def replayed() -> Seconds:
        watch = Stopwatch()
        subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=True)
        told = json.loads(report.read_text())
        assert told["restored_bytes"] == run.size_bytes
        return watch.stop(told["restore_ns"] / 1e9)

    get(store, digest)  # brings it into the page cache
    ours, plain, ratio, cpu = run.paired(replayed, lambda: get(store, digest))
    size_gb = run.size_bytes / GB
    return Figure(
        size_gb / ours,
        "GB/s",
        size_gb / plain,
        1 / ratio,
        f"{run.size_bytes / GIB:g} GiB, on the software GPU",
        cpu_ratio=1 / cpu,
    )


@row("replay.restore", "restore device memory for a replay / get it, into new memory too", at_least(0.80))
def restore(run: Run) -> Figure:
    run = limited(run)

    # A replay's memory is always new, and the system's work for that is most of the time. The software
    # GPU's is shared memory, which gets no large pages unless the whole system is set so: the same here.
    def get(store: Store, digest: Digest) -> Seconds:
        with mmap.mmap(-1, run.size_bytes) as pages, memoryview(pages) as memory:
            watch = Stopwatch()
            store.read_memory(digest, memory)
            return watch.stop()

    return measured(run, get)


@row("replay.restore-used", "restore it / get it into memory that was used before")
def restore_against_used_memory(run: Run) -> Figure:
    run = limited(run)
    memory = noise(run)

    def get(store: Store, digest: Digest) -> Seconds:
        watch = Stopwatch()
        store.read_memory(digest, memory)
        return watch.stop()

    return measured(run, get)
