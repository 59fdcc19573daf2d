"""One of several processes that use a store at once, for some seconds; prints what it did as JSON.

usage: busy.py STORE ROLE SECONDS SEED, ROLE being writer, collector or reader
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.errors import ArtifactNotFound
from kerncap_stages.store import Store
from kerncap_stages.store.check import check_store
from kerncap_stages.store.collect import collect_garbage

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest

CHUNK = 1 << 20


def blob(number: int) -> bytes:
    """Few different ones: writers meet each other's chunks, alive and forgotten."""
    return random.Random(number % 6).randbytes(CHUNK // 2) + bytes([number % 4]) * CHUNK


def write(store: Store, deadline: float, chance: random.Random, seed: int) -> dict[str, object]:
    mine: dict[Digest, tuple[Digest, bytes]] = {}
    made = wrong = 0
    while time.monotonic() < deadline:
        memory = blob(chance.randrange(24))
        with store.begin_transaction(threads=2) as transaction:
            digest = transaction.put_memory(memory)
            text = f'{{"by":{seed},"kind":"capture","memory":"memory:{digest}","n":{made}}}\n'
            artifact = transaction.publish(text.encode(), "capture")
        mine[artifact] = (digest, memory)
        made += 1
        for listed, (stored, expected) in list(mine.items()):
            wrong += bytes(store.read_memory(stored)) != expected
            if chance.random() < 0.4:
                store.remove(listed)
                del mine[listed]
    return {"made": made, "wrong": wrong, "mine": sorted(mine)}


def collect(store: Store, deadline: float) -> dict[str, object]:
    runs = removed = 0
    while time.monotonic() < deadline:
        removed += collect_garbage(store).removed_objects
        runs += 1
    return {"runs": runs, "removed": removed}


def read(store: Store, deadline: float) -> dict[str, object]:
    """Others take artifacts off the list and collect between any two steps: absence alone is no fault."""
    checks = 0
    faults: list[str] = []
    while time.monotonic() < deadline:
        faults += [str(fault) for fault in check_store(store).faults if any(map(store.has, fault.artifacts))]
        checks += 1
        for entry in store.list_artifacts():
            try:
                store.get(entry.digest)
            except ArtifactNotFound:
                faults += [str(entry)] * any(each.digest == entry.digest for each in store.list_artifacts())
    return {"checks": checks, "faults": faults}


def main() -> None:
    root, role, seconds, seed = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    store = Store.open(root)
    deadline = time.monotonic() + seconds
    match role:
        case "writer":
            result = write(store, deadline, random.Random(seed), seed)
        case "collector":
            result = collect(store, deadline)
        case _:
            result = read(store, deadline)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
