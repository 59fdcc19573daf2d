"""Starts the replay process, waits for it, and kills it at its time limit."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.errors import DeviceError
from kerncap_stages.replay.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    Report = Callable[[str, int, int], None]  # phase, done, in all

_TICK_S = 0.1
_RESTORE = "restore"  # the replayer's phase before the first launch
_STATE = "state"  # its phase when it runs from further states
REPEAT_PHASE = "repeat"  # its phase when it runs again from the first one
_LOOK_S = 0.002
# How long a driver may take to release a killed process. A second is usual, ten if many processes use the
# GPU. A driver that never does must not block a user who set a time limit or pressed Ctrl-C.
_MAX_RELEASE_S = 30.0
INTERRUPTED_S = 5.0  # the same after an interrupt by the user, for each of several waits
_MAX_GROWTH = 4.0  # to how many times its length a time limit grows on a machine with too much to do

_running: dict[subprocess.Popen[bytes], int] = {}  # and the thread that waits for each


def run_replayer(
    command: Sequence[str],
    environment: Mapping[str, str],
    timeout_s: float | None,
    *,
    progress: tuple[Path, Report | None] | None,
    setup_s: float = 0.0,
    states_s: float = 0.0,
) -> int | None:
    """Run the native replayer; returns its exit code, negative for a signal, None at the time limit.

    progress: the file to which it writes its progress (native/replay/progress.hpp), and a function to report
    it to. setup_s, states_s: see ``watch``.
    Raises DeviceError if it was killed at the time limit and the driver does not release it.
    """
    # The kernel's output goes to standard error: our standard output is for digests.
    with Relay() as relay:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=relay.fd, stderr=relay.fd
        )
    return finish_replayer(process, relay, timeout_s, progress=progress, setup_s=setup_s, states_s=states_s)


def finish_replayer(
    process: subprocess.Popen[bytes],
    relay: Relay,
    timeout_s: float | None,
    *,
    progress: tuple[Path, Report | None] | None,
    setup_s: float = 0.0,
    states_s: float = 0.0,
) -> int | None:
    """Wait for a replayer whose output is copied by ``relay``; the rest as for ``run_replayer``."""
    try:
        with track(process):
            code = watch(partial(_wait, process), timeout_s, progress, setup_s, states_s, process.pid)
    except BaseException:
        process.kill()
        wait_until_gone(process, limit_s=INTERRUPTED_S)
        raise
    if code is None:
        process.kill()
        require_gone(process)
    relay.finish()
    return code


def _wait(process: subprocess.Popen[bytes], timeout_s: float | None) -> int:
    """Wait like ``Popen.wait``, which looks at the process only every 50 ms if it has a time limit."""
    if timeout_s is None:
        return process.wait()
    try:
        ends = os.pidfd_open(process.pid)
    except OSError:  # Linux before 5.3, or too many open files
        return process.wait(timeout_s)
    try:
        poll = select.poll()
        poll.register(ends, select.POLLIN)
        poll.poll(1000 * timeout_s)
    finally:
        os.close(ends)
    return process.wait(0)


@contextlib.contextmanager
def track(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Make ``kill_running`` kill this process during a ``with`` block."""
    _running[process] = threading.get_ident()
    try:
        yield
    finally:
        _running.pop(process, None)


def list_running() -> tuple[subprocess.Popen[bytes], ...]:
    """Return all replay processes that are waited for."""
    return tuple(_running.copy())


def kill_running(threads: Collection[int] | None = None) -> None:
    """Kill the replay processes that these threads wait for; by default all, as when the user interrupts."""
    for process, thread in _running.copy().items():
        if threads is None or thread in threads:
            process.kill()


def wait_until_gone(*processes: subprocess.Popen[bytes], limit_s: float | None = None) -> list[int]:
    """Wait until ending processes are gone and their memory is free; returns the IDs of the others."""
    ends_at = time.monotonic() + (_MAX_RELEASE_S if limit_s is None else limit_s)
    # Popen.wait() with a time limit polls every 50 ms, which would slow every validation down.
    while (held := [each.pid for each in processes if each.poll() is None]) and time.monotonic() < ends_at:
        time.sleep(_LOOK_S)
    return held


def require_gone(*processes: subprocess.Popen[bytes]) -> None:
    """Wait like ``wait_until_gone``. Raises DeviceError if one is not gone: the next replay might fail."""
    if held := wait_until_gone(*processes):
        numbers = ", ".join(map(str, held))
        raise DeviceError(
            f"the driver has not released replay process {numbers} within {_MAX_RELEASE_S:g} s of its end: "
            "until then the device and its memory may not be available",
            hint="wait until that process is gone, or look for messages of the driver (dmesg)",
        )


def watch(
    wait: Callable[[float | None], int],
    timeout_s: float | None,
    progress: tuple[Path, Report | None] | None,
    setup_s: float = 0.0,
    states_s: float = 0.0,
    process_id: int | None = None,
) -> int | None:
    """Call ``wait`` until it returns, and return its result; None after ``timeout_s``. Reports progress.

    wait: gets a number of seconds, after which it raises TimeoutExpired.
    setup_s: how much longer it may take until the kernel is launched. On a machine with other work, most of a
    short time limit would else be spent before that, and the kernel be taken for one that does not end.
    states_s: how long the runs from further states may take, from when the first of them begins: a kernel
    that does not end in the first run is not given their time, too.
    process_id: the time for which this process waits for a processor does not count, within ``_MAX_GROWTH``.
    """
    limit = None if timeout_s is None else _Limit(timeout_s + setup_s, process_id)
    is_set_up = setup_s == 0.0
    while True:
        left_s = None if limit is None else limit.measure_left_s()
        if left_s == 0.0:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return wait(left_s if progress is None else min(_TICK_S, left_s or _TICK_S))
        phase = None if progress is None else read_phase(*progress)
        if timeout_s is not None and not is_set_up and phase not in (None, _RESTORE):
            is_set_up, limit = True, _Limit(timeout_s, process_id)
        if states_s and phase == _STATE:
            is_set_up, limit = True, _Limit(states_s, process_id)
            states_s = 0.0


class _Limit:
    """The time limit of a phase of a process. Waits for a processor since it began do not count."""

    def __init__(self, length_s: float, process_id: int | None) -> None:
        """It begins now. process_id: None if waits count, too."""
        self._process_id = process_id
        self._waited_before_s = measure_waits_s(process_id)
        self._credited_s = 0.0
        self._max_credit_s = (_MAX_GROWTH - 1) * length_s
        self._ends_at = time.monotonic() + length_s

    def measure_left_s(self) -> float:
        """Return the time until it has passed, 0 at the end. It grows only when it would have passed."""
        left_s = self._ends_at - time.monotonic()
        if left_s > 0:
            return left_s
        waits_s = measure_waits_s(self._process_id)
        waited_s = max(
            (each - self._waited_before_s.get(name, 0.0) for name, each in waits_s.items()), default=0.0
        )
        # A process that computes on a busy machine waits again meanwhile, and less each time.
        more_s = min(waited_s, self._max_credit_s) - self._credited_s
        if more_s < _TICK_S:
            return 0.0
        self._credited_s += more_s
        self._ends_at = time.monotonic() + more_s
        return more_s


def measure_waits_s(process_id: int | None) -> dict[str, float]:
    """Return for how long each thread of a process was ready to run and no processor was free.

    Empty if the process has ended, and where Linux does not count that.
    """
    waits_s: dict[str, float] = {}
    if process_id is None:
        return waits_s
    with contextlib.suppress(OSError), os.scandir(f"/proc/{process_id}/task") as threads:
        for thread in threads:
            with (
                contextlib.suppress(OSError, ValueError, IndexError),
                Path(thread.path, "schedstat").open() as file,
            ):
                waits_s[thread.name] = int(file.read().split()[1]) / 1e9
    return waits_s


def read_phase(file: Path, report: Report | None = None) -> str | None:
    """Return the phase that the replayer is in; None if it has written nothing yet. Report how far it is."""
    with contextlib.suppress(OSError, ValueError):
        phase, done, total = file.read_text(encoding="ascii").split()
        if report is not None:
            report(phase, int(done), int(total))
        return phase
    return None


def require_own_ending(code: int, folder: Path) -> None:
    """Raise DeviceError if the system ended the process: that says nothing about the kernel.

    code: as ``run_replayer`` returns it. folder: where the process wrote.
    """
    # No GPU kernel can cause these signals.
    if code == -signal.SIGKILL:
        raise DeviceError(
            "the replay process was killed (SIGKILL), as Linux does when memory runs out",
            hint="check the system's log (dmesg); if it was Linux, free memory and run it again",
        )
    if code == -signal.SIGXFSZ:
        raise DeviceError(
            "the replay process was ended by the limit on the size of files (SIGXFSZ): it writes to "
            f"{folder}, and the software GPU's memory counts as a file",
            hint="raise the limit (`ulimit -f unlimited`), and run it again",
        )
    if code == -signal.SIGXCPU:
        raise DeviceError(
            "the replay process was ended by the limit on processor time (SIGXCPU)",
            hint="raise the limit (`ulimit -t unlimited`), and run it again",
        )


def name_signal(number: int) -> str:
    """Return a signal's name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
