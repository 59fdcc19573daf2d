"""The memory that an evaluation takes on this machine: its coordinator, nodes, workers and replays."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

# Not the daemons of Ray or Slurm, which are there without it.
_OURS = (b"kc-evaluate", b"kc-replay", b"kerncap_stages", b"ray::NodeActor")
_SHARED = Path("/dev/shm")
_LOOK_S = 0.5  # to look takes milliseconds of a processor


class EvaluationMemory:
    """``peak_bytes``: the most that its processes had at once while the ``with`` block ran.

    Proportional set sizes, and what they keep in /dev/shm; without the process that looks.
    """

    def __init__(self, process_id: int | None = None) -> None:
        """process_id: count it and all processes below it; None: all that are ours by their names."""
        self.peak_bytes = 0
        self._process_id = process_id
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
            found = _find_ours() if self._process_id is None else _find_family(self._process_id)
            total = sum(map(_measure_process, found))
            self.peak_bytes = max(self.peak_bytes, total + _measure_shared() - self._before)


def _list_processes() -> list[int]:
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def _find_ours() -> Iterable[int]:
    for process_id in _list_processes():
        try:
            words = Path(f"/proc/{process_id}/cmdline").read_bytes()
        except OSError:
            continue
        if process_id != os.getpid() and any(each in words for each in _OURS):
            yield process_id


def _find_family(top: int) -> Iterable[int]:
    children: dict[int, list[int]] = {}
    for process_id in _list_processes():
        try:
            status = Path(f"/proc/{process_id}/stat").read_text()
        except OSError:
            continue
        children.setdefault(int(status.rpartition(")")[2].split()[1]), []).append(process_id)
    waiting = [top]
    while waiting:
        yield (process_id := waiting.pop())
        waiting += children.get(process_id, [])


def _measure_process(process_id: int) -> int:
    try:
        lines = Path(f"/proc/{process_id}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def _measure_shared() -> int:
    status = os.statvfs(_SHARED)
    return (status.f_blocks - status.f_bfree) * status.f_frsize
