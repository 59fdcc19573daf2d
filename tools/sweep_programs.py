"""Runs programs from several threads, so that Ctrl-C ends all of them."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


class Stopped(Exception):  # noqa: N818 - it is no error
    """The sweep was interrupted while, or before, a program ran."""


class Programs:
    """The programs that run now. Each is in a session of its own: Ctrl-C of a terminal does not reach it."""

    def __init__(self) -> None:
        """No program runs yet."""
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def run(self, words: Sequence[str], limit_s: float, **options: Any) -> tuple[int, str]:
        """Run a program to its end; return its exit code and its output.

        Raises TimeoutExpired after it has killed a program that takes longer, Stopped if `stop` was called.
        """
        with self._lock:
            if self._stopped:
                raise Stopped
            process = subprocess.Popen(
                words, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                errors="replace", **options,
            )  # fmt: skip
            self._running.add(process)
        try:
            told, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            kill(process)
            process.communicate()
            raise
        finally:
            with self._lock:
                self._running.discard(process)
        if self._stopped:
            raise Stopped
        return process.returncode, told

    def stop(self) -> None:
        """Kill the programs that run; no other starts."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a program with all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
