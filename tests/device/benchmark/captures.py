"""Large captures, into memory and onto the disk, and their replays."""

# ruff: noqa: E501 - the rows of a table read better whole
from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from machine import CHUNK, GIB, SAMPLE_GIB, Bench, device_to_host, run
from table import each, median, ratios

from kerncap_stages.collect.capture import CaptureOptions, run_capture
from kerncap_stages.collect.program import ProgramSpec
from kerncap_stages.manifests.capture import NameMatch, Selection
from kerncap_stages.store import Store

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest

# Steps of big_state that outlast any capture; it is ended once all is captured.
FOREVER = 1 << 30


@dataclass(frozen=True)
class Taken:
    """``seconds``: from the first bytes that came in until it was published."""

    digest: Digest
    size_bytes: int
    seconds: float
    held_s: float
    longest_s: float | None  # the program's longest step, where it ran to its end
    new_bytes: int

    @property
    def rate(self) -> float:
        """GB/s of state."""
        return self.size_bytes / self.seconds / 1e9


def capture(bench: Bench, store: Path, gib: int, steps: int = FOREVER, left_gib: int = 0) -> Taken:
    """Capture the tenth step of big_state. ``left_gib``: of device memory, where it takes all the rest."""
    first: list[float] = []
    out = Path(tempfile.mkstemp(dir=bench.folder)[1])
    options = CaptureOptions(
        selections=(Selection(match=NameMatch.SUBSTRING, pattern="touch", dispatch=10),),
        stop_after=steps == FOREVER,
        progress=lambda *_: first.append(time.perf_counter()) if not first else None,
        warn=lambda text: print(f"  warning: {text}", file=sys.stderr),
    )
    command = (str(bench.folder / "big_state"), str(gib), str(steps), str(left_gib))
    opened = Store.open(store)
    before = _stored_bytes(store)
    for digest, manifest in run_capture(opened, ProgramSpec(command, stdout=out), options):
        seconds = time.perf_counter() - first[0]
        found, made = digest, manifest
    longest = re.search(r"longest_s ([\d.]+)", out.read_text())
    size = sum(region.size_bytes for region in made.regions)
    held_s = made.cost.held_ns / 1e9
    longest_s = float(longest[1]) if longest else None
    return Taken(found, size, seconds, held_s, longest_s, _stored_bytes(store) - before)


def _stored_bytes(store: Path) -> int:
    return sum(path.stat().st_size for path in (store / "objects").glob("*/*"))


def into_memory(bench: Bench) -> None:
    """The first capture of a program, the second one, and replays: by turns with their ceilings."""
    plain = run(bench.folder / "big_state", bench.gib, 40)
    alone = float(re.search(r"longest_s ([\d.]+)", plain.stdout)[1])
    d2h = device_to_host()
    firsts, ceilings = [], []
    for number in range(bench.rounds):
        # The last one is large, and the others are compared with it: each has a store of its own.
        is_last = number + 1 == bench.rounds
        gib = bench.gib if is_last else max(SAMPLE_GIB, bench.gib * 2 // 5)
        store = bench.memory / f"store-{number}"
        bench.touch(gib)
        ceilings.append(min(d2h, bench.hash_and_write_rate(bench.memory / "plain", gib)))
        bench.touch(gib)
        # The large one runs to its end, and tells of its longest step.
        firsts.append(capture(bench, store, gib, 300_000 if is_last else FOREVER))
        if not is_last:
            shutil.rmtree(store)
    last = firsts[-1]
    bench.held_s.append(last.held_s)
    bench.whole_s.append(last.seconds)
    copy_s = last.size_bytes / d2h / 1e9
    longest = last.longest_s or float("inf")  # not told: no pass
    bench.table.add(
        f"program's pause, {bench.gib} GiB, room on the device",
        f"{last.held_s:.3f} s; longest step {longest:.3f} s ({alone:.4f} alone)",
        f"a copy to the host, {copy_s:.2f} s", last.held_s / copy_s, "at most 0.3 s",
        holds=max(last.held_s, longest) <= 0.3)  # fmt: skip
    rates = [taken.rate for taken in firsts]
    ratio = median(ratios(rates, ceilings))
    sizes = ", ".join(f"{taken.size_bytes / GIB:.0f}" for taken in firsts)
    bench.table.add(f"capture to a store in memory, incompressible, {sizes} GiB", f"{each(rates)} GB/s",
                    f"hash and write: {each(ceilings)} GB/s", ratio, "at least 0.75",
                    holds=ratio >= 0.75, d2h_gb_s=d2h)  # fmt: skip
    _again(bench, store)
    _replays(bench, store, last)
    shutil.rmtree(store)


def _again(bench: Bench, store: Path) -> None:
    rates, ceilings, written = [], [], 0
    for _ in range(bench.rounds):
        ceilings.append(bench.hash_rate())
        taken = capture(bench, store, bench.gib)
        rates.append(taken.rate)
        written = max(written, taken.new_bytes)
    ratio = median(ratios(rates, ceilings))
    bench.table.add("second capture of the same program",
                    f"{each(rates)} GB/s, {written / 1e6:.1f} MB written", f"hash: {each(ceilings)} GB/s",
                    ratio, "at least 0.85", holds=ratio >= 0.85 and written < CHUNK * 64)  # fmt: skip


def _replays(bench: Bench, store: Path, taken: Taken) -> None:
    def restore(*options: str) -> tuple[float, float]:
        begin = time.perf_counter()
        done = run("kc-replay", taken.digest, "--json", *options, store=store)
        made = json.loads(done.stdout)
        return made["restored_size_bytes"] / made["restore_ns"], time.perf_counter() - begin

    files = sorted((store / "objects").glob("*/*"))[: 8 * GIB // CHUNK]
    size = sum(path.stat().st_size for path in files)
    verified, plain, unverified, whole = [], [], [], []
    for _ in range(min(bench.rounds, 2)):
        plain.append(size / bench.loops.read_and_hash(files) / 1e9)
        rate, seconds = restore()
        verified.append(rate)
        whole.append(seconds)
        unverified.append(restore("--no-verify")[0])
    ratio = median(ratios(verified, plain))
    bench.table.add("restore of a replay, verified, from page cache",
                    f"{each(verified)} GB/s; whole command {median(whole):.1f} s",
                    f"read and hash: {each(plain)} GB/s", ratio, "at least 0.75", holds=ratio >= 0.75)  # fmt: skip
    bench.table.add("the same with --no-verify", f"{each(unverified)} GB/s", "the same loop",
                    median(ratios(unverified, plain)), "at least 20 GB/s", holds=median(unverified) >= 20)  # fmt: skip


def without_room(bench: Bench) -> None:
    """The program waits while both states go to the host."""
    store = bench.memory / "no-room"
    collector = min(device_to_host(), bench.hash_and_write_rate(bench.memory / "plain"))
    left_gib = max(1, bench.gib // 4)  # a copy has no room there
    taken = capture(bench, store, bench.gib, 40, left_gib)
    both = 2 * taken.size_bytes
    plain_s = both / collector / 1e9
    bench.table.add(f"pause, {bench.gib} GiB, {left_gib} GiB free on the device",
                    f"{taken.held_s:.2f} s for {both / 1e9:.0f} GB of two states",
                    f"{plain_s:.2f} s at {collector:.2f} GB/s", taken.held_s / plain_s, "at most 1.3",
                    holds=taken.held_s <= 1.3 * plain_s)  # fmt: skip
    shutil.rmtree(store)


def to_disk(bench: Bench) -> None:
    """By turns, and as many bytes: what was written a moment ago slows down who comes next, as at the start nobody."""
    rates, ceilings = [], []
    gib = bench.sample.size // GIB

    def ceiling() -> None:
        ceilings.append(bench.disk_rate(bench.folder / "plain"))

    def ours() -> None:
        store = bench.folder / "store"
        rates.append(capture(bench, store, gib).rate)
        shutil.rmtree(store)

    bench.disk_rate(bench.folder / "plain")
    for number in range(bench.rounds):
        for measure in (ceiling, ours) if number % 2 else (ours, ceiling):
            measure()
    ratio = median(ratios(rates, ceilings))
    bench.table.add(f"capture to disk, {gib} GiB", f"{each(rates)} GB/s", f"write: {each(ceilings)} GB/s",
                    ratio, "at least 0.85", holds=ratio >= 0.85)  # fmt: skip


def copying_baseline(bench: Bench) -> None:
    """What a capture is without any of this: pageable copies by one thread, into raw files; the program waits."""
    gib = min(bench.gib, 6)
    source = torch.empty(gib * GIB, dtype=torch.uint8, device="cuda")
    buffer = torch.zeros(64 << 20, dtype=torch.uint8)  # its pages are there before the clock runs
    target = bench.memory / "raw"
    begin = time.perf_counter()
    with target.open("wb") as file:
        for piece in source.split(buffer.numel()):
            file.write(memoryview(buffer.copy_(piece).numpy()))
    rate = source.numel() / (time.perf_counter() - begin) / 1e9
    target.unlink()
    del source
    torch.cuda.empty_cache()
    both_s = 2 * bench.gib * GIB / rate / 1e9
    for what, ours, bar in (("pause", bench.held_s, "at least 8"), ("whole capture", bench.whole_s, "")):
        ratio = both_s / median(ours) if ours else float("nan")
        bench.table.add(f"copying baseline: one thread, pageable, raw files; {what}",
                        f"{rate:.2f} GB/s: {both_s:.1f} s for both states of {bench.gib} GiB",
                        f"ours: {each(ours, 3)} s", ratio, bar, holds=ratio >= 8 if bar else None)  # fmt: skip
