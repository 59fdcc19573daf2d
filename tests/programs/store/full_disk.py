"""Puts into a store on a file system that fills up; prints what happened as JSON.

usage: full_disk.py FOLDER FREE_BYTES FREE_INODES; a tmpfs that nobody else sees is mounted on FOLDER
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from kerncap_stages.errors import KerncapError
from kerncap_stages.rocm_root.namespaces import MS_REMOUNT, enter_private_mounts, mount
from kerncap_stages.store import Store
from kerncap_stages.store.check import check_store

MIB = 1 << 20
ROOMY = "size=64m,nr_inodes=1000"


def manifest(digest: str, number: int) -> bytes:
    return b'{"kind":"capture","memory":"memory:%s","n":%d}\n' % (digest.encode(), number)


def publish(store: Store, memory: bytes, number: int) -> str:
    with store.begin_transaction(threads=2) as transaction:
        digest = transaction.put_memory(memory)
        transaction.publish(manifest(digest, number), "capture")
    return digest


def main() -> None:
    folder, free_bytes, free_inodes = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    enter_private_mounts()
    mount("tmpfs", folder, "tmpfs", 0, ROOMY)
    store = Store.open(folder / "store")
    first = os.urandom(2 * MIB)
    kept = publish(store, first, 1)
    used = os.statvfs(folder)
    size = (used.f_blocks - used.f_bfree) * used.f_frsize + free_bytes
    inodes = used.f_files - used.f_ffree + free_inodes
    mount("tmpfs", folder, "tmpfs", MS_REMOUNT, f"size={size},nr_inodes={inodes}")
    second = os.urandom(4 * MIB)
    error = None
    try:
        publish(store, second, 2)
    except KerncapError as raised:
        error = raised
    report = check_store(store)
    before = {
        "error": error and f"{type(error).__name__}: {error}",
        "hint": error and error.hint,
        "faults": [str(fault) for fault in report.faults],
        "listed": len(store.list_artifacts()),
        "staged": len(list((store.root / "tmp").iterdir())),
        "kept": bytes(store.read_memory(kept)) == first,
    }
    mount("tmpfs", folder, "tmpfs", MS_REMOUNT, ROOMY)
    again = publish(store, second, 2)
    before["again"] = bytes(store.read_memory(again)) == second and check_store(store).ok
    print(json.dumps(before))


if __name__ == "__main__":
    main()
