"""The ceilings: plain native loops over memory and files, on all cores."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

from stopwatch import Seconds, Stopwatch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt


class PlainLoops:
    """Each method returns the seconds that its loop took. Raises OSError where the system refuses."""

    def __init__(self, library: Path, threads: int) -> None:
        self._library = ctypes.CDLL(str(library))
        self._threads = ctypes.c_int(threads)

    def _call(self, name: str, *arguments: object) -> Seconds:
        function = getattr(self._library, name)
        function.restype = ctypes.c_double
        watch = Stopwatch()
        seconds: float = function(*arguments)
        if seconds < 0:
            raise OSError(int(-seconds), f"{name}: {os.strerror(int(-seconds))}")
        return watch.stop(seconds)

    def _memory(self, name: str, memory: npt.NDArray[np.uint8], chunk_bytes: int, *more: object) -> Seconds:
        sizes = (ctypes.c_size_t(memory.size), ctypes.c_size_t(chunk_bytes))
        return self._call(name, ctypes.c_void_p(memory.ctypes.data), *sizes, self._threads, *more)

    def fill(self, memory: npt.NDArray[np.uint8], seed: int) -> Seconds:
        """Fill uint8[size_bytes] with bytes that nothing compresses."""
        return self._call("plain_fill", ctypes.c_void_p(memory.ctypes.data), ctypes.c_size_t(memory.size),
                          ctypes.c_uint64(seed), self._threads)  # fmt: skip

    def read(self, memory: npt.NDArray[np.uint8], chunk_bytes: int) -> Seconds:
        """Read memory once."""
        return self._memory("plain_read", memory, chunk_bytes)

    def hash(self, memory: npt.NDArray[np.uint8], chunk_bytes: int) -> Seconds:
        """Hash each chunk with libcrypto's SHA-256."""
        return self._memory("plain_hash", memory, chunk_bytes)

    def hash_and_write(self, memory: npt.NDArray[np.uint8], chunk_bytes: int, folder: Path) -> Seconds:
        """Hash each chunk, write each as a file of ``folder``, then syncfs."""
        return self._memory("plain_hash_and_write", memory, chunk_bytes, os.fsencode(folder))

    def read_and_hash(self, files: Sequence[Path]) -> Seconds:
        """Read each file and hash what it holds."""
        return self._call(
            "plain_read_and_hash", b"".join(os.fsencode(f) + b"\n" for f in files), self._threads
        )
