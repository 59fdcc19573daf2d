"""Ends replays that take more memory than they may: else the machine begins to swap, or kills others."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kerncap_stages.replay.process import list_running

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from kerncap_stages.manifests.capture import Capture

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_LOOK_S = 0.05
# Of the replays of one variant on the software GPU, where device memory is the machine's.
_REPLAY_BYTES, _REPLAY_FACTOR = 512 << 20, 4


def choose_limit(given_bytes: int | None, captures: Sequence[Capture], *, on_cores: bool = False) -> int:
    """Return the memory that the replays of one variant may take; 0: no limit.

    on_cores: whether the software GPU replays a capture of another one.
    """
    if given_bytes is not None:
        return given_bytes
    if not (captures[0].device.software or on_cores):
        return 0
    return _REPLAY_BYTES + _REPLAY_FACTOR * max(each.size_bytes for each in captures)


class MemoryLimit:
    """Looks at this process's replays while a ``with`` block runs, and kills those above a limit."""

    def __init__(self, limit_bytes: int) -> None:
        """``limit_bytes``: of all replays that run at the same time; 0: no limit."""
        self._limit_bytes = limit_bytes
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.exceeded = False  # reset it before each variant

    def __enter__(self) -> Self:
        if self._limit_bytes:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_S):
            running = list_running()
            if sum(measure_memory(each.pid) for each in running) > self._limit_bytes:
                self.exceeded = True
                for each in running:
                    each.kill()


def measure_memory(process_id: int) -> int:
    """Return the memory that a process has, in bytes; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{process_id}/statm").read_bytes().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return 0
