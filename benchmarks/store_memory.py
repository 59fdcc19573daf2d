"""Large memory through the store, against plain native loops over the same bytes in the same run."""

from __future__ import annotations

import shutil
import statistics
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from frame import GIB, Figure, Run, at_least, at_most, row
from peak_memory import PeakMemory
from stopwatch import Seconds, Stopwatch

from kerncap_stages._native import CHUNK_SIZE_BYTES
from kerncap_stages.store import Store

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest

Bytes = npt.NDArray[np.uint8]
GB = 1e9


def noise(run: Run) -> Bytes:
    """Memory of the chosen size that nothing compresses."""

    def make() -> Bytes:
        run.need(int(1.1 * run.size_bytes), 2 * run.size_bytes + GIB)
        memory = np.empty(run.size_bytes, np.uint8)
        run.plain.fill(memory, seed=1)
        return memory

    return run.keep("noise", make)


def peaks(run: Run) -> dict[str, int]:
    """Extra memory of each kind of work at its worst, in bytes."""
    return run.keep("peaks", dict)


def put(run: Run, store: Store, memory: Bytes, what: str) -> tuple[Seconds, Digest, dict[str, int]]:
    """Put and publish; returns seconds, the chunk list, and what the transaction counted."""
    with PeakMemory() as peak:
        watch = Stopwatch()
        with store.begin_transaction() as transaction:
            digest = transaction.put_memory(memory)
            counts = transaction.get_counts()
            text = f'{{"kind":"capture","memory":"memory:{digest}","schema_version":1}}\n'
            transaction.publish(text.encode(), "capture")
        seconds = watch.stop()
    peaks(run)[what] = max(peaks(run).get(what, 0), peak.extra_bytes)
    return seconds, digest, counts


def put_anew(run: Run, memory: Bytes, what: str) -> tuple[Seconds, dict[str, int]]:
    """Put into a new store, which is removed again."""
    place = run.place()
    try:
        seconds, _, counts = put(run, Store.open(place / "store"), memory, what)
    finally:
        shutil.rmtree(place)
    return seconds, counts


def write_plainly(run: Run, memory: Bytes) -> Seconds:
    """Hash and write each chunk by the plain loop."""
    place = run.place()
    try:
        return run.plain.hash_and_write(memory, CHUNK_SIZE_BYTES, place)
    finally:
        shutil.rmtree(place)


def filled(run: Run) -> tuple[Store, Digest]:
    """A store that holds the memory already."""

    def make() -> tuple[Store, Digest]:
        store = Store.open(run.place() / "store")
        return store, put(run, store, noise(run), "put")[1]

    return run.keep("filled", make)


@row("store.put", "put incompressible memory / plain hash + file loop", at_least(0.85))
def put_incompressible(run: Run) -> Figure:
    memory = noise(run)
    ours, plain, ratio, cpu = run.paired(
        lambda: put_anew(run, memory, "put")[0], lambda: write_plainly(run, memory)
    )
    size_gb = memory.size / GB
    return Figure(
        size_gb / ours, "GB/s", size_gb / plain, 1 / ratio, f"{memory.size / GIB:g} GiB", cpu_ratio=1 / cpu
    )


@row("store.put-again", "put it again, all known / plain hash loop", at_least(0.90))
def put_known(run: Run) -> Figure:
    memory = noise(run)
    store, _ = filled(run)
    written = []

    def again() -> Seconds:
        seconds, _, counts = put(run, store, memory, "put again")
        written.append(counts["new_bytes"] + counts["stored_bytes"])
        return seconds

    ours, plain, ratio, cpu = run.paired(again, lambda: run.plain.hash(memory, CHUNK_SIZE_BYTES))
    size_gb = memory.size / GB
    ok = 1 / ratio >= 0.90 and max(written) == 0
    return Figure(
        size_gb / ours, "GB/s", size_gb / plain, 1 / ratio, f"{max(written)} bytes written", ok, 1 / cpu
    )


@row("store.get", "get, verified, from the page cache / plain read + hash loop", at_least(0.80))
def get_verified(run: Run) -> Figure:
    memory = noise(run)
    store, digest = filled(run)
    files = sorted(path for path in (store.root / "objects").glob("*/*") if path.stat().st_size > 1000)

    def get() -> Seconds:
        memory[:CHUNK_SIZE_BYTES] = 0
        with PeakMemory() as peak:
            watch = Stopwatch()
            store.read_memory(digest, memory)
            seconds = watch.stop()
        peaks(run)["get"] = max(peaks(run).get("get", 0), peak.extra_bytes)
        assert memory[:CHUNK_SIZE_BYTES].any()
        return seconds

    run.plain.read_and_hash(files)  # brings them into the page cache
    ours, plain, ratio, cpu = run.paired(get, lambda: run.plain.read_and_hash(files))
    size_gb = memory.size / GB
    return Figure(size_gb / ours, "GB/s", size_gb / plain, 1 / ratio, cpu_ratio=1 / cpu)


def bf16_weights(size_bytes: int, threads: int) -> Bytes:
    """Random normal numbers as bf16: the upper halves of float32."""
    memory = np.empty(size_bytes, np.uint8)
    pieces = np.array_split(memory.view(np.uint16), max(1, size_bytes >> 24))

    def fill(number: int) -> None:
        normal = np.random.default_rng(number).standard_normal(pieces[number].size, np.float32)
        pieces[number][:] = normal.view(np.uint32) >> 16

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fill, range(len(pieces))))
    return memory


@row("store.bf16", "put bf16 weights / the same size of incompressible memory", at_least(0.5))
def put_bf16(run: Run) -> Figure:
    weights = bf16_weights(run.size_bytes // 8, run.threads)
    same_size = noise(run)[: weights.size]
    counted: dict[str, int] = {}

    def put_weights() -> Seconds:
        seconds, counts = put_anew(run, weights, "put bf16")
        counted.update(counts)
        return seconds

    ours, plain, ratio, cpu = run.paired(put_weights, lambda: put_anew(run, same_size, "put")[0])
    gained = counted["new_bytes"] / counted["stored_bytes"]
    size_gb = weights.size / GB
    met = 1 / ratio >= 0.5 or gained > 1.15
    note = f"{gained:.2f} times smaller; it may be slower above 1.15"
    return Figure(size_gb / ours, "GB/s", size_gb / plain, 1 / ratio, note, met, 1 / cpu)


@row("store.zeros", "put, all zeros, for each second of a core / plain read loop", at_least(4, "value"))
def put_zeros(run: Run) -> Figure:
    if "filled" in run.kept:
        shutil.rmtree(run.kept.pop("filled")[0].root.parent)  # type: ignore[index]
    run.kept.pop("noise", None)
    zeros = np.empty(run.size_bytes, np.uint8)
    zeros.fill(0)  # pages of its own, not the kernel's one page of zeros
    cores_s: dict[str, list[float]] = {"ours": [], "plain": []}

    def put_them() -> Seconds:
        seconds, counts = put_anew(run, zeros, "put zeros")
        assert counts["zero_bytes"] == zeros.size
        cores_s["ours"].append(seconds.cpu_s)
        return seconds

    def read_them() -> Seconds:
        seconds = run.plain.read(zeros, CHUNK_SIZE_BYTES)
        cores_s["plain"].append(seconds.cpu_s)
        return seconds

    _, _, ratio, cpu = run.paired(put_them, read_them, 2 * run.rounds + 1)
    ours, plain = (zeros.size / GB / statistics.median(cores_s[who]) for who in ("ours", "plain"))
    return Figure(ours, "GB/core-s", plain, 1 / ratio, cpu_ratio=1 / cpu)


@row("store.memory", "peak extra memory of all of these", at_most(512, "value"))
def peak_memory(run: Run) -> Figure:
    measured = peaks(run)
    if not measured:
        put_zeros(run)
    worst = max(measured, key=measured.__getitem__)
    note = ", ".join(f"{what} {size >> 20}" for what, size in measured.items())
    return Figure(measured[worst] / (1 << 20), "MiB", note=note)
