"""Imports numpy without the threads that compute its matrix products: a verdict has none.

They start with numpy, and wait for work with a processor each for a twentieth of a second.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

_THREADS = "OPENBLAS_NUM_THREADS"
_CHOSEN = (_THREADS, "GOTO_NUM_THREADS", "OMP_NUM_THREADS")  # which OpenBLAS reads


def import_numpy() -> None:
    """Import numpy, unless that was done before. A number of threads that the user chose stays.

    Processes that start later have the threads: a program of the user's may need them.
    """
    if "numpy" in sys.modules or any(name in os.environ for name in _CHOSEN):
        return
    os.environ[_THREADS] = "1"
    try:
        import_module("numpy")
    finally:
        del os.environ[_THREADS]
