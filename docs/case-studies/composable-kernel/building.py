"""Fetches Composable Kernel, and builds programs that call it, for gfx90a."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from running import Study

PROGRAMS = Path(__file__).resolve().parent / "programs"

# This source archive holds the headers of Composable Kernel that flash attention is built with.
SDIST = "flash_attn-2.8.3.tar.gz"
SHA256 = "1e71dd64a9e0280e0447b8a0c2541bad4bf6ac65bdeaa2f90e51a9e57de0370d"
INSIDE = "flash_attn-2.8.3/csrc/composable_kernel/"
OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DCMAKE_HIP_ARCHITECTURES=gfx90a",
    "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
)


class ComposableKernel(Study):
    """Composable Kernel and the programs in the study's folder."""

    @property
    def edited(self) -> Path:
        """The library's folder of headers."""
        return self.source / "include"

    def program(self, name: str) -> tuple[str | Path, ...]:
        """Return the command of a program. It compares its results with those of the host."""
        return (self.build / name,)


def fetch(study: ComposableKernel) -> dict[str, Any]:
    """Fetch the source archive, and unpack the library."""
    return study.fetch(SDIST, SHA256, INSIDE)


def build(study: ComposableKernel) -> dict[str, Any]:
    """Configure and build the programs."""
    found = study.configure_and_build(PROGRAMS, (*OPTIONS, f"-DCOMPOSABLE_KERNEL={study.source}"))
    return {**found, "options": list(OPTIONS)}
