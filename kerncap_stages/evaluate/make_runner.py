"""Runs make in a project, with what it starts: none of that outlives us, or takes all memory."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Self

_MAX_SAID = 64 << 10  # bytes of messages
# Of each process of a compiler's build. A variant's source must not take the machine's memory. Python that
# loads a GPU's runtime reserves far more address space than it uses.
_MAX_BUILD_BYTES = 16 << 30
# It waits for a line, so that the guard knows of a build before it begins.
_LIMITED = ("sh", "-c", 'read -r go || exit 1; [ "$0" = 0 ] || ulimit -v "$0"; exec "$@" < /dev/null')
_GUARD = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class NotBuiltError(Exception):
    """The source does not compile; the text is the first error."""


class BuildStoppedError(Exception):
    """The build was stopped, or did not begin: nothing is known of the source."""


@dataclass(frozen=True)
class Made:
    """What became of a run of make. ``said``: the end of its messages."""

    succeeded: bool
    said: str


class _Guard:
    """A process that outlives this one if that is killed, and then ends the builds: compilers do not."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _GUARD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def tell(self, line: str) -> None:
        """Tell of a process group that has begun (``+``) or ended (``-``)."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it has ended
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()

    def end(self) -> None:
        """End it, with the builds that it knows."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()


class MakeRunner:
    """Runs make, also several at a time. Stop it at the end."""

    def __init__(self, *, runs_python: bool, temporary: Path | None = None) -> None:
        """``runs_python``: whether Python compiles, as in projects of Triton kernels.

        temporary: a folder for what compilers remove only if they are not killed; None: the system's.
        """
        self._environment = None if temporary is None else {**os.environ, "TMPDIR": str(temporary)}
        self._max_bytes = 0 if runs_python else _MAX_BUILD_BYTES
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_stopped = False
        self._guard: _Guard | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run(self, folder: Path, words: Sequence[str], timeout_s: float) -> Made:
        """Run make in a folder. ``words``: targets and options. Threads may call it at the same time.

        Raises NotBuiltError if it does not end in time, BuildStoppedError if it was stopped.
        """
        process = self._start(folder, words)
        try:
            self._let_go(process)
            _, said = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise NotBuiltError(f"it did not compile within {timeout_s:g} s") from None
        finally:
            with contextlib.suppress(OSError):  # also what make started
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for stream in (process.stdin, process.stderr):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
            with self._lock:
                self._running.discard(process)
                if self._guard is not None:
                    self._guard.tell(f"-{process.pid}")
        if process.returncode != 0 and self._is_stopped:
            raise BuildStoppedError  # stop() may have killed it
        return Made(process.returncode == 0, said[-_MAX_SAID:].decode(errors="replace"))

    def stop(self) -> None:
        """End all that runs, and begin nothing."""
        with self._lock:
            self._is_stopped = True
            for process in self._running:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
        if self._guard is not None:
            self._guard.end()

    def _start(self, folder: Path, words: Sequence[str]) -> subprocess.Popen[bytes]:
        with self._lock:  # stop() sees a process, or none is started
            if self._is_stopped:
                raise BuildStoppedError
            self._guard = self._guard or _Guard()
            process = subprocess.Popen(
                [*_LIMITED, str(self._max_bytes >> 10), "make", "-s", "-C", str(folder), *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for us
            )
            self._running.add(process)
            return process

    def _let_go(self, process: subprocess.Popen[bytes]) -> None:
        """Have the guard know of a process that waits for a line, and then let it begin."""
        with self._lock:
            assert self._guard is not None
            self._guard.tell(f"+{process.pid}")
        assert process.stdin is not None
        with contextlib.suppress(OSError), process.stdin:
            process.stdin.write(b"go\n")
        process.stdin = None  # communicate() would write to it
