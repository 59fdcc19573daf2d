"""Starts replayers before it is known what they replay.

CUDA takes longer to start than a small replay does. Started early, it starts while Python reads the capture.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from kerncap_stages.errors import DeviceError
from kerncap_stages.machine.native_paths import find_native_file
from kerncap_stages.replay.one_gpu import VARIABLE
from kerncap_stages.replay.process import INTERRUPTED_S, require_gone, track, wait_until_gone, watch
from kerncap_stages.replay.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from kerncap_stages.replay.process import Report

REPLAYERS = {"hsa": "kc-replay-hsa", "cuda": "kc-replay-cuda"}


def start_waiting(
    words: Sequence[str], environment: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], socket.socket, Relay]:
    """Start a replayer that waits for its arguments; also returns our end of its input, and its output.

    A kernel's output goes to standard error: our standard output is for digests.
    """
    ours, theirs = socket.socketpair()
    with theirs, Relay() as relay:
        process = subprocess.Popen(
            words, env=environment, stdin=theirs.fileno(), stdout=relay.fd, stderr=relay.fd
        )
    return process, ours, relay


@dataclass(frozen=True)
class Standby:
    """A replayer that waits for its arguments, and our end of the socket that is its standard input."""

    process: subprocess.Popen[bytes]
    input: socket.socket
    relay: Relay | None = None
    is_kept: bool = False  # for further replays

    def run(
        self,
        timeout_s: float | None,
        progress: tuple[Path, Report | None] | None = None,
        setup_s: float = 0.0,
        states_s: float = 0.0,
    ) -> int | None:
        """Return its exit code like ``run_replayer``, as soon as its report is written.

        The process ends later: the driver takes long to release it.
        """
        code = None
        try:
            with track(self.process):
                code = watch(self._wait, timeout_s, progress, setup_s, states_s, self.process.pid)
        finally:
            if code is None:
                self.process.kill()
        return code

    def _wait(self, timeout_s: float | None) -> int:
        self.input.settimeout(timeout_s)
        try:
            answer = self.input.recv(1)
        except TimeoutError as error:
            raise subprocess.TimeoutExpired(self.process.args, timeout_s or 0.0) from error
        except ConnectionResetError:  # it died before it read its arguments
            answer = b""
        return answer[0] if answer else self.process.wait(timeout_s)

    def close(self) -> None:
        """Close our end, and copy the rest of the output if the process has ended."""
        self.input.close()
        if self.relay is not None and self.process.returncode is not None:
            self.relay.finish()


class Standbys:
    """Replayers of one back end that wait for arguments. When the ``with`` block ends, all have ended."""

    def __init__(self, backend: str, device_index: int, only_gpu: str | None = None) -> None:
        """Start none yet. device_index: the device that they use; only_gpu: see ``choose_only_gpu``."""
        self._is_slow_to_start = backend == "cuda"
        index = device_index if only_gpu is None else 0
        self._words = [str(find_native_file(REPLAYERS[backend])), "--standby", str(index)]
        self._variables: dict[str, str] = {} if only_gpu is None else {VARIABLE: only_gpu}
        self._waiting: list[Standby] = []
        self._taken: list[Standby] = []
        self._promised = 0  # how many were started for later calls of start_one_more()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for standby in self._waiting:
            standby.process.kill()
        self._taken += self._waiting
        self._waiting.clear()
        if kind is not None and not issubclass(kind, Exception):  # the user has interrupted us
            wait_until_gone(*(standby.process for standby in self._taken), limit_s=INTERRUPTED_S)
            return
        with contextlib.suppress(DeviceError):  # results count even if a driver holds a process
            self.settle()

    def start(self, count: int) -> None:
        """Start this many if that saves time. They end with the thread that calls this."""
        for _ in range(count if self._is_slow_to_start else 0):
            self._waiting.append(Standby(*start_waiting(self._words, {**os.environ, **self._variables})))

    def start_for_later(self) -> None:
        """Start the one that the next call of ``start_one_more`` asks for."""
        self.start(1)
        self._promised += 1

    def start_one_more(self) -> None:
        """Start one, unless ``start_for_later`` already did."""
        if self._promised:
            self._promised -= 1
        else:
            self.start(1)

    def fits(self, *, timed: bool, has_variant: bool) -> bool:  # noqa: ARG002 - others than these may ask
        """Whether such a replay may be given to ``take``."""
        return not timed

    def take(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,  # noqa: ARG002 - subclasses use these two
        *,
        has_variant: bool = False,  # noqa: ARG002
    ) -> Standby | None:
        """Send arguments to one of them and return it; None if none waits. May be called from any thread.

        environment: of the replay. has_variant: whether the replay is of a variant.
        """
        try:
            standby = self._waiting.pop(0)
        except IndexError:
            return None
        self._taken.append(standby)
        words = b"".join(word.encode(errors="surrogateescape") + b"\0" for word in arguments)
        try:
            standby.input.sendall(words)
            standby.input.shutdown(socket.SHUT_WR)
        except OSError:  # it has died
            return None
        return standby

    def settle(self) -> None:
        """Wait until all that were taken have ended and their memory is free.

        Raises DeviceError if a driver does not release one.
        """
        try:
            require_gone(*(standby.process for standby in self._taken))
        finally:
            while self._taken:
                self._taken.pop().close()
