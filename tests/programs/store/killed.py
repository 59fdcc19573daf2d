"""Kills a process at random points of a put, many times; prints what was found as JSON.

usage: killed.py STORE TIMES SEED
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from kerncap_stages.store import Store
from kerncap_stages.store.check import check_store
from kerncap_stages.store.collect import collect_garbage

CHUNK = 1 << 20


def put(store: Store, memory: bytes, number: int) -> str:
    with store.begin_transaction(threads=2) as transaction:
        digest = transaction.put_memory(memory)
        text = f'{{"kind":"capture","memory":"memory:{digest}","n":{number}}}\n'
        return transaction.publish(text.encode(), "capture")


def main() -> None:
    root, times, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    store = Store.open(root)
    started = time.monotonic()
    kept = chance.randbytes(8 * CHUNK)
    put(store, kept, -1)
    usual_s = time.monotonic() - started
    faults: list[str] = []
    unfinished = published = 0
    for number in range(times):
        memory = chance.randbytes(8 * CHUNK)
        child = os.fork()
        if child == 0:
            put(Store.open(root), memory, number)
            os._exit(0)
        time.sleep(chance.uniform(0, 1.2 * usual_s))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        published += len(store.list_artifacts()) == 2
        faults += [f"{number}: {fault}" for fault in check_store(store).faults]
        unfinished += any((root / "tmp").iterdir())
        artifact = put(store, memory, number)
        closure = store.find_closure(artifact)
        faults += [f"{number}: not whole after a second put"] * bool(closure.missing)
        digest = next(each for each, kind in closure.kinds.items() if kind == "memory")
        faults += [f"{number}: other bytes"] * (bytes(store.read_memory(digest)) != memory)
        store.remove(artifact)
        collect_garbage(store)  # so that the next check is as short as the first
    print(
        json.dumps(
            {
                "faults": faults,
                "published": published,
                "unfinished": unfinished,
                "left": len(list((root / "tmp").iterdir())),
                "listed": len(store.list_artifacts()),
                "ok": check_store(store).ok,
            }
        )
    )


if __name__ == "__main__":
    main()
