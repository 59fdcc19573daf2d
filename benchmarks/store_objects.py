"""Many small objects: put, check, collect."""

from __future__ import annotations

import shutil

import numpy as np
from frame import Figure, Run, at_least, row
from stopwatch import Seconds, Stopwatch

from kerncap_stages.store import Store
from kerncap_stages.store.check import check_store
from kerncap_stages.store.collect import collect_garbage

COUNT = 100_000
SIZE_BYTES = 400


def publish_small(run: Run) -> tuple[Store, Seconds]:
    """A store with one artifact of many small files; and the seconds that putting them took."""

    def make() -> tuple[Store, Seconds]:
        run.need(COUNT * 3 * 4096, 1 << 30)
        payloads = np.random.default_rng(3).bytes(COUNT * SIZE_BYTES)
        store = Store.open(run.place() / "store")
        watch = Stopwatch()
        with store.begin_transaction() as transaction:
            digests = [
                transaction.put_bytes(payloads[start : start + SIZE_BYTES])
                for start in range(0, len(payloads), SIZE_BYTES)
            ]
            listed = ",".join(f'"file:{digest}"' for digest in digests)
            transaction.publish(
                f'{{"files":[{listed}],"kind":"capture","schema_version":1}}\n'.encode(), "capture"
            )
        return store, watch.stop()

    return run.keep("small objects", make)


@row("objects.put", f"put {COUNT:,} small objects in one transaction / plain hash + file loop")
def put_small(run: Run) -> Figure:
    _, seconds = publish_small(run)
    memory = np.frombuffer(np.random.default_rng(4).bytes(COUNT * SIZE_BYTES), np.uint8)
    place = run.place()
    try:
        plain_s = run.plain.hash_and_write(memory, SIZE_BYTES, place)
    finally:
        shutil.rmtree(place)
    return Figure(
        COUNT / seconds,
        "objects/s",
        COUNT / plain_s,
        plain_s / seconds,
        cpu_ratio=plain_s.cpu_s / seconds.cpu_s,
    )


@row("objects.check", "check them / plain read + hash loop", at_least(5000, "value"))
def check_small(run: Run) -> Figure:
    store, _ = publish_small(run)
    files = sorted((store.root / "objects").glob("*/*"))

    def check() -> Seconds:
        watch = Stopwatch()
        report = check_store(store)
        seconds = watch.stop()
        assert report.ok
        assert report.checked_objects == COUNT + 1
        return seconds

    ours, plain, ratio, cpu = run.paired(check, lambda: run.plain.read_and_hash(files))
    return Figure(COUNT / ours, "objects/s", COUNT / plain, 1 / ratio, cpu_ratio=1 / cpu)


@row("objects.gc", "collect them")
def collect_small(run: Run) -> Figure:
    store, _ = publish_small(run)
    store.remove(store.resolve("@"))
    watch = Stopwatch()
    report = collect_garbage(store)
    seconds = watch.stop()
    assert report.removed_objects == COUNT + 1
    run.kept.pop("small objects")
    shutil.rmtree(store.root.parent)
    return Figure(COUNT / seconds, "objects/s")
