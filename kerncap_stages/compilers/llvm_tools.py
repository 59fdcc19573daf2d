"""LLVM's tools for code objects: where they are, and what they say without failing."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.compilers.installed import find_compiler, newest_version
from kerncap_stages.errors import DeviceError, KerncapError
from kerncap_stages.machine.run_tool import run_tool

if TYPE_CHECKING:
    import subprocess

# LLVM's tools say this, take some other processor, and end with 0.
_UNKNOWN_PROCESSOR = "is not a recognized processor"


def llvm_tool(name: str) -> str:
    """Path of a tool: on PATH, else beside the clang that hipcc uses, else on PATH with a version.

    Raises DeviceError if it is in none of these places.
    """
    found = shutil.which(name)
    beside = None
    if found is None:
        with contextlib.suppress(KerncapError):
            beside = Path(find_compiler("hipcc").path).resolve().parent
            found = shutil.which(name, path=str(beside))
    found = found or newest_version(name)
    if found is None:
        where = "on PATH" if beside is None else f"on PATH or in {beside}"
        raise DeviceError(f"there is no {name} {where}", hint="install LLVM's tools, or put them on PATH")
    return found


def run_llvm(name: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run one of LLVM's tools.

    Raises DeviceError where it does not know the processor that it was asked for.
    """
    tool = llvm_tool(name)
    done = run_tool([tool, *words])
    for line in done.stderr.splitlines():
        if _UNKNOWN_PROCESSOR in line:
            raise DeviceError(f"{tool}: {line.strip()}", hint="put LLVM's tools of a newer version on PATH")
    return done
