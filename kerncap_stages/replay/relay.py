"""Copies a replayer's output to our standard error.

A replayer that its driver does not release keeps its files open. So it gets a pipe instead of our standard
error: a reader of our standard error then sees its end when we end.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Self

_PIECE_BYTES = 1 << 16
# The output of a process that has ended can be read at once, but a child of it may keep the pipe open.
_REST_S = 1.0


class Relay:
    """A pipe that is copied to standard error. Start a process, with output to ``fd``, in its block."""

    def __init__(self) -> None:
        self._ours, self.fd = os.pipe()  # neither is inherited by others
        self._thread = threading.Thread(target=self._pass_on, daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self.fd)
        self._thread.start()

    def finish(self) -> None:
        """Copy the rest of the output of a process that has ended."""
        self._thread.join(_REST_S)

    def _pass_on(self) -> None:
        with os.fdopen(self._ours, "rb", buffering=0) as pipe:
            while piece := pipe.read(_PIECE_BYTES):
                with contextlib.suppress(OSError):  # our standard error is closed
                    os.write(2, piece)
