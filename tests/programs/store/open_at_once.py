"""Opens a store that is not there yet as soon as it is told to, and puts a payload into it.

usage: open_at_once.py NUMBER < STORES, one path a line
"""

from __future__ import annotations

import sys
from pathlib import Path

from kerncap_stages.store import Store


def main() -> None:
    number = int(sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        store = Store.open(Path(line.removesuffix("\n")))
        with store.begin_transaction(threads=1) as transaction:
            digest = transaction.put_bytes(b"of process %d" % number)
            text = f'{{"file":"file:{digest}","kind":"capture"}}\n'
            print(transaction.publish(text.encode(), "capture"), flush=True)


if __name__ == "__main__":
    main()
