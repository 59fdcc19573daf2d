"""Whether a program that used no GPU is a CUDA program on a machine without NVIDIA's driver."""

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
# The driver's name stands in CUDA's runtime, which most programs hold; the others need its library.
_NAMED_IN_CUDA_PROGRAMS = (_DRIVER.encode(), b"libcudart.so")


def why_no_cuda(spec: ProgramSpec) -> str | None:
    """What to do about it; None where there is a driver, or the program is not seen to be a CUDA program."""
    if not _is_cuda_program(spec):
        return None
    try:
        ctypes.CDLL(_DRIVER)
    except OSError:
        return (
            f"it is a CUDA program, and there is no NVIDIA driver here ({_DRIVER}): run it where there is one"
        )
    return None


def _is_cuda_program(spec: ProgramSpec) -> bool:
    """Whether the program is one, or a program that the command names by its path, as a shell's may."""
    found = [shutil.which(spec.command[0])]
    for text in spec.command:
        found += [str(Path(spec.working_directory or ".", word)) for word in _words(text) if "/" in word]
    return any(_names_cuda(Path(path)) for path in found if path is not None)


def _words(text: str) -> list[str]:
    """What a shell would make of it."""
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _names_cuda(path: Path) -> bool:
    try:
        # What cannot be executed may be data, and of any size.
        if not (path.is_file() and os.access(path, os.X_OK)):
            return False
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return any(text.find(word) >= 0 for word in _NAMED_IN_CUDA_PROGRAMS)
    except (OSError, ValueError):
        return False
