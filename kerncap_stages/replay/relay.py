"""What a replayer prints, passed on to our standard error.

A replayer that its driver does not let go keeps open what it was given. It gets a pipe of ours, so that
whoever reads our standard error comes to its end when we end.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Self

_PIECE_BYTES = 1 << 16
# What a process that has ended wrote is there at once; a child of its own may keep the pipe.
_REST_S = 1.0


class Relay:
    """Use as a context manager around the start of a process, whose output goes to ``fd``."""

    def __init__(self) -> None:
        self._ours, self.fd = os.pipe()  # neither is inherited by others
        self._thread = threading.Thread(target=self._pass_on, daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self.fd)
        self._thread.start()

    def finish(self) -> None:
        """Pass on the rest of what a process wrote that has ended."""
        self._thread.join(_REST_S)

    def _pass_on(self) -> None:
        with os.fdopen(self._ours, "rb", buffering=0) as pipe:
            while piece := pipe.read(_PIECE_BYTES):
                with contextlib.suppress(OSError):  # nobody can read it
                    os.write(2, piece)
