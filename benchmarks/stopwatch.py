"""Wall time, and the processor time beside it, which a busy machine does not stretch."""

from __future__ import annotations

import resource
import time


def _cpu_s() -> float:
    """Of all threads, and of children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class Seconds(float):
    """Wall seconds; ``cpu_s`` is what all cores together spent."""

    cpu_s: float


class Stopwatch:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._wall_s, self._cpu_s = time.perf_counter(), _cpu_s()

    def stop(self, wall_s: float | None = None) -> Seconds:
        """Return what was taken; ``wall_s`` is given where somebody else measured it better."""
        taken = Seconds(time.perf_counter() - self._wall_s if wall_s is None else wall_s)
        taken.cpu_s = _cpu_s() - self._cpu_s
        return taken
