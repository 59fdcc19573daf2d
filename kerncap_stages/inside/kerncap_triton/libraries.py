"""The capture libraries, as the runtimes have loaded them into this process."""

from __future__ import annotations

import os
import threading
from typing import Any

LIBRARIES = "KERNCAP_TRITON_LIBRARIES"  # the variable that names the capture libraries, one in each line

_paths = [path for path in os.environ.get(LIBRARIES, "").split("\n") if path]
_loaded: list[Any] = []
_lock = threading.Lock()


def find_libraries() -> list[Any]:
    """Return the libraries that are loaded: none before the program uses its GPU. None is loaded here."""
    if not _loaded:
        with _lock:
            if not _loaded:
                _loaded.extend(_find())
    return _loaded


def _find() -> list[Any]:
    import ctypes  # Triton may never ask

    found = []
    for path in _paths:
        try:
            found.append(
                ctypes.PyDLL(path, mode=os.RTLD_NOLOAD)
            )  # its functions are short: no GIL is released
        except OSError:
            continue
    return found
