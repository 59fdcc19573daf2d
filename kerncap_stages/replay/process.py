"""The process that replays: started, watched, and ended in time."""

from __future__ import annotations

import contextlib
import subprocess
import time
from typing import TYPE_CHECKING

from kerncap_stages.errors import DeviceError
from kerncap_stages.replay.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    Report = Callable[[str, int, int], None]  # phase, done, in all

_TICK_S = 0.1
_LOOK_S = 0.002
# How long a driver may take to let go of a process that has ended. A second is usual, and ten where many
# use the GPU at once; one that never does must not hold whoever set a time limit, or pressed Ctrl-C.
_LETTING_GO_S = 30.0
INTERRUPTED_S = 5.0  # the same for whoever has been interrupted: each wait behind it has this limit

_running: set[subprocess.Popen[bytes]] = set()


def run_replayer(
    command: Sequence[str],
    environment: Mapping[str, str],
    timeout_s: float | None,
    *,
    progress: tuple[Path, Report] | None,
) -> int | None:
    """Run the native replayer; returns its exit code, negative for a signal, None if it did not end in time.

    Raises DeviceError if it was killed for that, and its driver holds it on.

    progress: the file that it writes how far it is to (native/replay/progress.hpp), and who wants to know.
    """
    # What the kernel prints is for people; our own standard output is for digests.
    with Relay() as relay:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=relay.fd, stderr=relay.fd
        )
    try:
        with running(process):
            code = watched(process.wait, timeout_s, progress)
    except BaseException:
        process.kill()
        let_go(process, limit_s=INTERRUPTED_S)
        raise
    if code is None:
        process.kill()
        must_be_gone(process)
    relay.finish()
    return code


@contextlib.contextmanager
def running(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Let ``kill_running`` know of a process that replays."""
    _running.add(process)
    try:
        yield
    finally:
        _running.discard(process)


def kill_running() -> None:
    """Kill all that replays, whichever thread waits for it: the user has interrupted us."""
    for process in _running.copy():
        process.kill()


def let_go(*processes: subprocess.Popen[bytes], limit_s: float | None = None) -> list[int]:
    """Wait until processes that end are gone, and their memory free; gives the IDs of those still held."""
    ends_at = time.monotonic() + (_LETTING_GO_S if limit_s is None else limit_s)
    # Popen.wait() with a limit looks every 50 ms, which each validation would pay for.
    while (held := [each.pid for each in processes if each.poll() is None]) and time.monotonic() < ends_at:
        time.sleep(_LOOK_S)
    return held


def must_be_gone(*processes: subprocess.Popen[bytes]) -> None:
    """Wait like ``let_go``. Raises DeviceError where one is held: what comes next might fail by it."""
    if held := let_go(*processes):
        numbers = ", ".join(map(str, held))
        raise DeviceError(
            f"the driver has not let go of what replayed (process {numbers}) {_LETTING_GO_S:g} s after its "
            "end: the device and its memory may be missing until then",
            hint="wait until that process is gone, or see the kernel's log (dmesg) for the driver's",
        )


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
