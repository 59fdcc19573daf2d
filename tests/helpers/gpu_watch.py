"""Which GPUs the workers of evaluations are given, and which are used, while a ``with`` block runs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Self

WORKER = b"kerncap_stages.evaluate.worker"
_VARIABLE = b"CUDA_VISIBLE_DEVICES="
_LOOK_S = 0.02
_USED_MIB = 100  # a CUDA context takes more


class GpuWatch:
    """``workers``: the GPU of each worker process that was seen, by process id, in the order of their starts.

    A worker works on the first GPU that it sees.
    """

    def __init__(self) -> None:
        self.workers: dict[int, str] = {}
        self._memory: dict[int, list[int]] = {}
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._measure_memory()
        self._threads = [threading.Thread(target=each) for each in (self._look, self._measure)]
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for each in self._threads:
            each.join()

    @property
    def used(self) -> set[int]:
        """The GPUs, by their numbers, on which memory was taken since the block began."""
        return {gpu for gpu, seen in self._memory.items() if max(seen) - min(seen) > _USED_MIB}

    def wait_for_worker(self, gpu: str, limit_s: float = 60, but: frozenset[int] = frozenset()) -> int:
        """The process id of a worker on that GPU that lives, and is none of those."""
        ends_at = time.monotonic() + limit_s
        while time.monotonic() < ends_at:
            for process_id, seen in list(self.workers.items()):
                if seen == gpu and process_id not in but and Path(f"/proc/{process_id}").exists():
                    return process_id
            time.sleep(_LOOK_S)
        raise AssertionError(f"no worker on GPU {gpu}: {self.workers}")

    def _look(self) -> None:
        before: set[int] = set()
        while not self._ended.wait(_LOOK_S):
            found = {
                int(each.name)
                for each in os.scandir("/proc")
                if each.name.isdigit() and _is_worker(each.path)
            }
            # What a worker starts is for a moment as the worker itself: its replays.
            for process_id in sorted((found & before) - self.workers.keys()):
                with contextlib.suppress(OSError):
                    self.workers[process_id] = _find_gpu(Path(f"/proc/{process_id}/environ"))
            before = found

    def _measure(self) -> None:
        while not self._ended.wait(_LOOK_S):
            self._measure_memory()

    def _measure_memory(self) -> None:
        words = ["nvidia-smi", "--query-gpu=index,memory.used", "--format=csv,noheader,nounits"]
        for line in subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines():
            gpu, mib = line.split(",")
            self._memory.setdefault(int(gpu), []).append(int(mib))


def _is_worker(folder: str) -> bool:
    try:
        return WORKER in Path(folder, "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _find_gpu(environ: Path) -> str:
    for each in environ.read_bytes().split(b"\0"):
        if each.startswith(_VARIABLE):
            return each.removeprefix(_VARIABLE).split(b",")[0].decode()
    return ""
