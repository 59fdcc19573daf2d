"""Uses a store that is mounted read-only in a mount namespace of its own; prints what happened as JSON.

usage: read_only.py STORE
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kerncap_stages.errors import KerncapError
from kerncap_stages.rocm_root.namespaces import bind, enter_private_mounts, make_read_only
from kerncap_stages.store import Store
from kerncap_stages.store.check import check_store
from kerncap_stages.store.collect import collect_garbage
from kerncap_stages.store.usage import measure_usage


def refused(call: object) -> str:
    try:
        call()  # type: ignore[operator]
    except KerncapError as error:
        return f"{type(error).__name__}: {error} | {error.hint}"
    return "it went through"


def main() -> None:
    root = Path(sys.argv[1])
    enter_private_mounts()
    bind(root, root)
    make_read_only(root)
    store = Store.open(root)
    artifact = store.resolve("@")
    result = {
        "read": len(store.get(artifact)) > 0
        and check_store(store).ok
        and measure_usage(store, artifact).objects > 0,
        "transaction": refused(store.begin_transaction),
        "name": refused(lambda: store.name("x", artifact)),
        "remove": refused(lambda: store.remove(artifact)),
        "collect": refused(lambda: collect_garbage(store)),
        "dry run": collect_garbage(store, dry_run=True).removed_objects,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
