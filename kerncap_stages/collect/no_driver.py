"""Recognises a CUDA program that ran on a machine without NVIDIA's driver."""

from __future__ import annotations

import ctypes
import mmap
import os
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kerncap_stages.collect.program import ProgramSpec

_DRIVER = "libcuda.so.1"
# Most CUDA programs contain the CUDA runtime, which names the driver; the others load the runtime's library.
_NAMED_IN_CUDA_PROGRAMS = (_DRIVER.encode(), b"libcudart.so")


def explain_no_driver(spec: ProgramSpec) -> str | None:
    """Return a hint for a CUDA program without a driver; None if there is a driver, or no sign of CUDA."""
    if not _is_cuda_program(spec):
        return None
    try:
        ctypes.CDLL(_DRIVER)
    except OSError:
        return (
            f"it is a CUDA program, and this machine has no NVIDIA driver ({_DRIVER}): run it on one that has"
        )
    return None


def _is_cuda_program(spec: ProgramSpec) -> bool:
    """Whether the command's program, or another program whose path is in the command, uses CUDA.

    The command may be a shell's: ``sh -c './app --fast'``.
    """
    found = [shutil.which(spec.command[0])]
    for text in spec.command:
        found += [
            str(Path(spec.working_directory or ".", word)) for word in _split_words(text) if "/" in word
        ]
    return any(_names_cuda(Path(path)) for path in found if path is not None)


def _split_words(text: str) -> list[str]:
    """Split a text as a shell does; no words if it cannot be split."""
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _names_cuda(path: Path) -> bool:
    try:
        # A file that is not executable may be data of any size.
        if not (path.is_file() and os.access(path, os.X_OK)):
            return False
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return any(text.find(word) >= 0 for word in _NAMED_IN_CUDA_PROGRAMS)
    except (OSError, ValueError):
        return False
