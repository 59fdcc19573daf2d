"""A node without a GPU: the real one, with the made-up worker, and with faults of nodes. Run as a program.

    fake_node.py NUMBER     the file kill-NUMBER in KERNCAP_TEST_NODES lets it die at its second task, once
A variant that says "takes node down" ends it. KERNCAP_TEST_MACHINES: each NUMBER is another machine.
KERNCAP_TEST_EACH: before its first task it waits until three nodes have one.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from kerncap_stages.evaluate import node as node_module
from kerncap_stages.evaluate import workers

HELPERS = Path(__file__).parent
NODES = Path(os.environ["KERNCAP_TEST_NODES"])
NUMBER = sys.argv[1]


class FaultyNode(node_module.Node):
    tasks = 0

    def answer(self, members, blobs):
        if members["call"] == "judge":
            self.tasks += 1
            self.fail(blobs[0].decode())
        return super().answer(members, blobs)

    def fail(self, said):
        (NODES / f"at-work-{NUMBER}").touch()
        if os.environ.get("KERNCAP_TEST_EACH") and self.tasks == 1:
            ends_at = time.monotonic() + 60
            while len(list(NODES.glob("at-work-*"))) < 3 and time.monotonic() < ends_at:
                time.sleep(0.01)
        if said == "takes node down":
            os._exit(7)
        kill = NODES / f"kill-{NUMBER}"
        if self.tasks == 2 and kill.exists():
            kill.rename(NODES / f"killed-{NUMBER}")
            os._exit(7)


def main() -> None:
    workers._COMMAND = (sys.executable, str(HELPERS / "fake_worker.py"))
    if os.environ.get("KERNCAP_TEST_MACHINES"):
        node_module.identify_machine = lambda *_, **__: (NUMBER * 64)[:64]
    if "KERNCAP_TEST_VERSION" in os.environ:
        node_module.__version__ = os.environ["KERNCAP_TEST_VERSION"]
    node_module.Node = FaultyNode
    sys.exit(node_module.main())


if __name__ == "__main__":
    main()
