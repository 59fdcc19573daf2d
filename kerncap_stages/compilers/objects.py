"""Reads a build's object files: that of a unit names the kernels that its host code launches."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.consulted import Consulted

_OUTPUT = ("-o", "--output-file")


def names_kernel(command: CompileCommand, symbol: str, consulted: Consulted) -> bool:
    """Whether the object file that a command made exists and names a kernel.

    Host code of CUDA and of HIP registers each kernel of its unit with the runtime, by its symbol.
    """
    path = _find_output(command)
    if path is None:
        return False
    try:
        if not path.is_file() or path.stat().st_size == 0:
            return False
        consulted.exists(path)
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(symbol.encode() + b"\0") >= 0
    except (OSError, ValueError):
        # The name is invalid, the file may not be read, or it shrinks meanwhile.
        return False


def _find_output(command: CompileCommand) -> Path | None:
    words = command.arguments
    for word, after in zip(words, (*words[1:], ""), strict=True):
        name, equals, joined = word.partition("=")
        if name in _OUTPUT and (equals or after):
            return command.directory / (joined if equals else after)
    return None
