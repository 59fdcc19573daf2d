"""How much memory a piece of work takes at its peak."""

from __future__ import annotations

from pathlib import Path

_STATUS = Path("/proc/self/status")


def _status_bytes(name: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


class PeakMemory:
    """``with PeakMemory() as peak: …``; then ``peak.extra_bytes`` is what came on top at the worst moment."""

    def __enter__(self) -> PeakMemory:
        Path("/proc/self/clear_refs").write_text("5")  # the kernel forgets the peak so far
        self._before = _status_bytes("VmRSS")
        self.extra_bytes = 0
        return self

    def __exit__(self, *_: object) -> None:
        self.extra_bytes = max(0, _status_bytes("VmHWM") - self._before)
