"""The process that replays: started, watched, and ended in time."""

from __future__ import annotations

import contextlib
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    Report = Callable[[str, int, int], None]  # phase, done, in all

_TICK_S = 0.1
# How long a driver may take to let go of a process that has ended. A second is usual, and ten where many
# use the GPU at once; one that never does must not hold whoever set a time limit, or pressed Ctrl-C.
_LETTING_GO_S = 30.0


def run_replayer(
    command: Sequence[str],
    environment: Mapping[str, str],
    timeout_s: float | None,
    *,
    progress: tuple[Path, Report] | None,
) -> int | None:
    """Run the native replayer; returns its exit code, negative for a signal, None if it did not end in time.

    progress: the file that it writes how far it is to (native/replay/progress.hpp), and who wants to know.
    """
    # What the kernel prints is for people; our own standard output is for digests.
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=2)
    try:
        return watched(process.wait, timeout_s, progress)
    finally:
        if process.poll() is None:
            process.kill()
            let_go(process)


def let_go(process: subprocess.Popen[bytes]) -> None:
    """Wait until a process that ends is gone, and its memory free; not for ever."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_LETTING_GO_S)


def watched(
    wait: Callable[[float | None], int], timeout_s: float | None, progress: tuple[Path, Report] | None
) -> int | None:
    """What ``wait`` returns, which raises TimeoutExpired after so many seconds; None after ``timeout_s``."""
    ends_at = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = None if ends_at is None else ends_at - time.monotonic()
        if left_s is not None and left_s <= 0:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return wait(left_s if progress is None else min(_TICK_S, left_s or _TICK_S))
        if progress is not None:
            _tell(*progress)


def _tell(file: Path, report: Report) -> None:
    with contextlib.suppress(OSError, ValueError):  # not there yet
        phase, done, total = file.read_text(encoding="ascii").split()
        report(phase, int(done), int(total))
