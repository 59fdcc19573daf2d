"""Tells the capture library when an autotuner only tries a configuration: users want none of its trials."""

from __future__ import annotations

import functools
import os
from typing import Any

from .files import report
from .libraries import find_libraries

TRIALS = "KERNCAP_TRITON_TRIALS"  # 1: the capture libraries are told of an autotuner's trials

_told = os.environ.get(TRIALS) == "1"


def mark(tuner: Any, method: str) -> None:
    """Let the method that times one configuration say so. ``tuner``: its class."""
    if not _told:
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
        for library in find_libraries():
            library.kerncap_begin_trial()
            told.append(library)
    except Exception:
        report("an autotuner's trials cannot be told from other launches")
    return told
