"""Tells the capture library when an autotuner only tries a configuration: users want none of its trials."""

from __future__ import annotations

import functools
import os
import threading
from typing import Any

from .files import report

LIBRARIES = "KERNCAP_TRITON_TRIALS"  # the variable that names the capture libraries, one in each line

_paths = [path for path in os.environ.get(LIBRARIES, "").split("\n") if path]
_loaded: list[Any] = []
_lock = threading.Lock()


def mark(tuner: Any, method: str) -> None:
    """Let the method that times one configuration say so. ``tuner``: its class."""
    if not _paths:
        return
    run = getattr(tuner, method)

    @functools.wraps(run)
    def run_as_trial(*args: Any, **kwargs: Any) -> Any:
        libraries = _begin()
        try:
            return run(*args, **kwargs)
        finally:
            for library in libraries:
                library.kerncap_end_trial()

    setattr(tuner, method, run_as_trial)


def _begin() -> list[Any]:
    """Begin a trial, and return the libraries that were told: those that must be told of its end."""
    told: list[Any] = []
    try:
        with _lock:
            if not _loaded:
                _load()
            libraries = list(_loaded)
        for library in libraries:
            library.kerncap_begin_trial()
            told.append(library)
    except Exception:
        report("an autotuner's trials cannot be told from other launches")
    return told


def _load() -> None:
    """Find the libraries that the runtimes have loaded: one is not there before the program uses its GPU."""
    import ctypes  # Triton may never tune

    for path in _paths:
        try:
            _loaded.append(ctypes.CDLL(path, mode=os.RTLD_NOLOAD))
        except OSError:
            continue
