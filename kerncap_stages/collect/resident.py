"""How much memory a capture takes beside the program: ours at its peak, and the library's inside it."""

from __future__ import annotations

import os
import re
from pathlib import Path

_KIB = 1024


def _status(process_id: int, field: str) -> int:
    """Read a size of /proc/PID/status in bytes; 0 when the process is gone."""
    try:
        text = Path(f"/proc/{process_id}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    found = re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) * _KIB if found else 0


class ResidentMemory:
    """Watches one process of the program from the begin of a capture to its end."""

    def __init__(self, process_id: int) -> None:
        self._process_id = process_id
        self._before = _status(process_id, "RssAnon")

    def peak_bytes(self) -> int:
        """Peak of this process, staging memory included, and what the program's grew by while it was held.

        Threads of the program that go on while its queues are held count too: this is never too little.
        """
        grown = max(0, _status(self._process_id, "RssAnon") - self._before)
        return _status(os.getpid(), "VmHWM") + grown
