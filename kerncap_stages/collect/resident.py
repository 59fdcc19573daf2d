"""Measures the memory that a capture needs in addition to the program's own."""

from __future__ import annotations

import os
import re
from pathlib import Path

_KIB = 1024


def _read_status(process_id: int, field: str) -> int:
    """Read a size from /proc/PID/status, in bytes; 0 if the process has ended."""
    try:
        text = Path(f"/proc/{process_id}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    found = re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) * _KIB if found else 0


class ResidentMemory:
    """Measures one process of the program from the beginning of a capture to its end."""

    def __init__(self, process_id: int) -> None:
        self._process_id = process_id
        self._before = _read_status(process_id, "RssAnon")

    def measure_peak_bytes(self) -> int:
        """Return the peak memory of this process plus the growth of the program's during the capture.

        The peak includes staging memory. The growth includes what the program's own threads allocated
        meanwhile, so the sum is an upper bound.
        """
        grown = max(0, _read_status(self._process_id, "RssAnon") - self._before)
        return _read_status(os.getpid(), "VmHWM") + grown
