"""Explains why the user's program could not be started: one error number of the system has many causes."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from kerncap_stages.errors import ProgramError

if TYPE_CHECKING:
    from pathlib import Path


def explain_start_failure(program: str, folder: Path, error: OSError) -> ProgramError:
    """Return the error for a program that did not start; ``folder`` is its working folder."""
    why, hint = _find_reason(program, folder, error.errno) or (error.strerror, "check the command after `--`")
    return ProgramError(f"cannot run {program}: {why}", hint=hint)


def _find_reason(program: str, folder: Path, number: int | None) -> tuple[str, str] | None:
    if not folder.is_dir():
        return f"its working folder {folder} does not exist", "run it from a folder that exists"
    file = folder / program
    if "/" not in program:
        if number != errno.ENOENT:
            return None
        if file.is_file():
            return "it is not in PATH", f"to run the program in this folder, write ./{program}"
        return "it is not in PATH", "check its spelling, or give its path"
    if file.is_dir():
        return "it is a folder", "give a program in that folder"
    if number == errno.ENOENT and not file.exists():
        counted = "" if program.startswith("/") else f"; it is relative to {folder}"
        return "there is no such file", f"check its path{counted}"
    if number == errno.ENOENT:
        return "the interpreter that it names does not exist", f"check its first line: `file {program}`"
    if number == errno.ENOEXEC:
        return "it is not a program and has no `#!` line", f"name its interpreter: -- sh {program}"
    if number == errno.EACCES and not os.access(file, os.X_OK):
        return (
            "it is not executable",
            f"run `chmod +x {program}`, or name its interpreter: -- sh {program}",
        )
    return None
