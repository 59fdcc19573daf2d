"""Run a build and show its progress. Its other output is shown only if it fails."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# A line of ninja, indented or not: "[7/296] Compiling …". meson-python also counts the wheel's files, without
# a verb.
_STEP = re.compile(r"\s*\[(\d+/\d+)\] [A-Z]\w+ing ")
PAUSE_S = 10.0  # between two lines of a log


def build(
    command: Sequence[str], say: Callable[[str], None], shown: TextIO = sys.stderr, pause_s: float = PAUSE_S
) -> int:
    """Run a command that prints ninja's steps; returns its exit code.

    On a terminal one line shows the count of steps. Elsewhere a line is printed every ``pause_s`` seconds.
    """
    clear = "\r\x1b[K" if shown.isatty() else ""
    kept: list[str] = []
    latest = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        for line in process.stdout or ():
            step = _STEP.match(line)
            if step is None:
                kept.append(line)
            elif clear:
                print(f"{clear}[{step[1]}] built", end="", file=shown, flush=True)
            elif time.monotonic() - latest >= pause_s:
                latest = time.monotonic()
                say(f"{step[1]} built")
    print(clear, end="", file=shown, flush=True)
    if process.returncode != 0:
        print("".join(kept), end="", file=shown, flush=True)
    return process.returncode
