"""Fetches Composable Kernel and hipCUB, and builds programs that call them, for gfx90a."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from running import Study

PROGRAMS = Path(__file__).resolve().parent / "programs"

# This source archive holds the headers of Composable Kernel that flash attention is built with.
SDIST = "flash_attn-2.8.3.tar.gz"
SHA256 = "1e71dd64a9e0280e0447b8a0c2541bad4bf6ac65bdeaa2f90e51a9e57de0370d"
INSIDE = "flash_attn-2.8.3/csrc/composable_kernel/"
# The ROCm root has these headers. The study edits copies.
INCLUDE = Path("/usr/include")
HIPCUB = ("hipcub", "rocprim")
OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DCMAKE_HIP_ARCHITECTURES=gfx90a",
    "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
)


class ComposableKernel(Study):
    """The libraries and the programs in the study's folder."""

    @property
    def edited(self) -> Path:
        """The libraries' folder of headers."""
        return self.source / "include"

    def program(self, name: str) -> tuple[str | Path, ...]:
        """Return the command of a program. It compares its results with those of the host."""
        return (self.build / name,)


def fetch(study: ComposableKernel) -> dict[str, Any]:
    """Fetch the source archive, unpack Composable Kernel, and copy the headers of hipCUB and rocPRIM."""
    found = study.fetch(SDIST, SHA256, INSIDE)
    for name in HIPCUB:
        for folder in (study.edited, study.original):
            shutil.copytree(INCLUDE / name, folder / name, dirs_exist_ok=True)
    return found


def build(study: ComposableKernel) -> dict[str, Any]:
    """Configure and build the programs."""
    # Copies beside the build: compile commands and projects name them, also when this checkout is gone.
    programs = study.folder / "programs"
    shutil.rmtree(programs, ignore_errors=True)
    shutil.copytree(PROGRAMS, programs)
    found = study.configure_and_build(programs, (*OPTIONS, f"-DHEADERS={study.edited}"))
    return {**found, "options": list(OPTIONS)}
