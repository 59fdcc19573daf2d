"""Why a program of the user's could not be started: the system has one word for many reasons."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from kerncap_stages.errors import ProgramError

if TYPE_CHECKING:
    from pathlib import Path


def cannot_run(program: str, folder: Path, error: OSError) -> ProgramError:
    """The error of a program that did not start; ``folder``: its working folder."""
    why, hint = _why(program, folder, error.errno) or (error.strerror, "check the command after `--`")
    return ProgramError(f"cannot run {program}: {why}", hint=hint)


def _why(program: str, folder: Path, number: int | None) -> tuple[str, str] | None:
    if not folder.is_dir():
        return f"its working folder {folder} is not there", "run it from a folder that is there"
    file = folder / program
    if "/" not in program:
        if number != errno.ENOENT:
            return None
        if file.is_file():
            return "it is not in PATH", f"a program of this folder is called ./{program}"
        return "it is not in PATH", "check its spelling, or give its path"
    if file.is_dir():
        return "it is a folder", "give the program in it"
    if number == errno.ENOENT and not file.exists():
        counted = "" if program.startswith("/") else f"; it is looked for in {folder}"
        return "there is no such file", f"check its path{counted}"
    if number == errno.ENOENT:
        return "the interpreter that it names is not there", f"look at its first line: `file {program}`"
    if number == errno.ENOEXEC:
        return "it is no program, and has no `#!` line", f"give its interpreter, too: -- sh {program}"
    if number == errno.EACCES and not os.access(file, os.X_OK):
        return (
            "it may not be executed",
            f"`chmod +x {program}`, or give its interpreter, too: -- sh {program}",
        )
    return None
