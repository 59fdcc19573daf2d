"""Finds and runs LLVM's tools for code objects."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.compilers.installed import find_compiler, find_newest_version
from kerncap_stages.errors import DeviceError, KerncapError
from kerncap_stages.machine.run_tool import run_tool

if TYPE_CHECKING:
    import subprocess

# LLVM's tools print this, use another processor, and end with exit code 0.
_UNKNOWN_PROCESSOR = "is not a recognized processor"


def find_llvm_tool(name: str) -> str:
    """Find a tool: on PATH, else beside hipcc's clang, else on PATH with a version in its name.

    Raises DeviceError if it is in none of these places.
    """
    found = shutil.which(name)
    beside = None
    if found is None:
        with contextlib.suppress(KerncapError):
            beside = Path(find_compiler("hipcc").path).resolve().parent
            found = shutil.which(name, path=str(beside))
    found = found or find_newest_version(name)
    if found is None:
        where = "on PATH" if beside is None else f"on PATH or in {beside}"
        raise DeviceError(f"there is no {name} {where}", hint="install LLVM's tools, or put them on PATH")
    return found


def run_llvm(name: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run one of LLVM's tools.

    Raises DeviceError if it is missing, or does not know the processor that it was asked for.
    """
    tool = find_llvm_tool(name)
    done = run_tool([tool, *words])
    for line in done.stderr.splitlines():
        if _UNKNOWN_PROCESSOR in line:
            raise DeviceError(f"{tool}: {line.strip()}", hint="put a newer version of LLVM's tools on PATH")
    return done
