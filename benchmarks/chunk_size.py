"""What the chunk size of this build costs: rates, size of a changed state, size of a list. Prints JSON.

usage: python benchmarks/chunk_size.py FOLDER [MIB]; to compare sizes, change `k_chunk_bytes` in
native/core/chunk_list.hpp and run it again: docs/decisions/0002-chunk-size.md.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from stopwatch import Seconds, Stopwatch

from kerncap_stages._native import CHUNK_SIZE_BYTES
from kerncap_stages.store import Store

MIB = 1 << 20
# Places that a kernel writes, each of so many bytes, spread evenly at random.
SPARSE = {
    "16 of 64 B": (16, 64),
    "256 of 4 KiB": (256, 4096),
    "16 of 1 MiB": (16, MIB),
    "4 of 16 MiB": (4, 16 * MIB),
}


def put(store: Store, memory: np.ndarray) -> tuple[Seconds, str, dict[str, int]]:
    watch = Stopwatch()
    with store.begin_transaction() as transaction:
        digest = transaction.put_memory(memory)
        counts = transaction.get_counts()
        transaction.publish(f'{{"kind":"capture","memory":"memory:{digest}"}}\n'.encode(), "capture")
    return watch.stop(), digest, counts


def main() -> None:
    place = Path(tempfile.mkdtemp(prefix="kerncap-chunks-", dir=sys.argv[1]))
    size_bytes = int(sys.argv[2] if len(sys.argv) > 2 else 512) * MIB
    chance = np.random.default_rng(1)
    memory = np.frombuffer(chance.bytes(size_bytes), np.uint8).copy()
    try:
        store = Store.open(place / "store")
        put_s, digest, _ = put(store, memory)
        out = np.zeros(size_bytes, np.uint8)
        get_s = []
        for _ in range(3):
            watch = Stopwatch()
            store.read_memory(digest, out)
            get_s.append(watch.stop())
        result = {
            "chunk_mib": CHUNK_SIZE_BYTES / MIB,
            "put_gb_s": size_bytes / put_s / 1e9,
            "get_gb_s": size_bytes / min(get_s) / 1e9,
            "put_gb_a_cpu_second": size_bytes / put_s.cpu_s / 1e9,
            "get_gb_a_cpu_second": size_bytes / min(taken.cpu_s for taken in get_s) / 1e9,
            "list_bytes_a_gib": len(store.get(digest)) * (1 << 30) // size_bytes,
        }
        for name, (count, length) in SPARSE.items():
            changed = memory.copy()
            for start in chance.integers(0, size_bytes - length, count):
                changed[start : start + length] ^= 0x55
            result[f"changed MiB, {name}"] = put(store, changed)[2]["new_bytes"] / MIB
        print(json.dumps(result))
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
