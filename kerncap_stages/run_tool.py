"""Runs compilers and their companions: no shell, nothing to read, a bounded time."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from kerncap_stages.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_TIMEOUT_S = 300


def run_tool(
    words: Sequence[object], folder: Path | None = None, hint: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end in ``folder``, else in the current one, and keep what it says.

    Raises DeviceError, with ``hint``, if it cannot be started or does not end; its exit code is the caller's.
    """
    command = [str(word) for word in words]
    try:
        return subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceError(f"cannot run {command[0]}: {error}", hint=hint) from error
