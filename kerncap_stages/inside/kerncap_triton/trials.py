"""Tells the capture library when an autotuner only tries a configuration: users want none of its trials."""

from __future__ import annotations

import functools
import os
from typing import Any

from .files import report

LIBRARIES = "KERNCAP_TRITON_TRIALS"  # the variable that names the capture libraries, one in each line

_paths = os.environ.get(LIBRARIES, "").splitlines()
_loaded: list[Any] = []


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
    try:
        if not _loaded:
            _load()
        for library in _loaded:
            library.kerncap_begin_trial()
    except Exception:
        report("an autotuner's trials cannot be told from other launches")
        return []
    return list(_loaded)


def _load() -> None:
    """Find the libraries that the runtimes have loaded: one is not there before the program uses its GPU."""
    import ctypes  # Triton may never tune

    for path in _paths:
        try:
            _loaded.append(ctypes.CDLL(path, mode=os.RTLD_NOLOAD))
        except OSError:
            continue
