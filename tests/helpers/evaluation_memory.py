"""The memory that an evaluation takes on this machine: its coordinator, nodes, workers and replays."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Self

# Not the daemons of Ray or Slurm, which are there without it.
_OURS = (b"kc-evaluate", b"kc-replay", b"kerncap_stages", b"ray::NodeActor")
_SHARED = Path("/dev/shm")
_LOOK_S = 0.5


class EvaluationMemory:
    """``peak_bytes``: the most that its processes had at once while the ``with`` block ran.

    Proportional set sizes, and what they keep in /dev/shm; without the test's own process.
    """

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._before = _measure_shared()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_S):
            total = sum(_measure_process(entry.path) for entry in os.scandir("/proc") if entry.name.isdigit())
            self.peak_bytes = max(self.peak_bytes, total + _measure_shared() - self._before)


def _measure_process(folder: str) -> int:
    try:
        words = Path(folder, "cmdline").read_bytes()
        if not any(each in words for each in _OURS) or folder.endswith(f"/{os.getpid()}"):
            return 0
        lines = Path(folder, "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def _measure_shared() -> int:
    status = os.statvfs(_SHARED)
    return (status.f_blocks - status.f_bfree) * status.f_frsize
