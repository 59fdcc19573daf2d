"""What a build left behind: the object file of a unit names the kernels that its host code launches."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.consulted import Consulted

_OUTPUT = ("-o", "--output-file")


def launches(command: CompileCommand, symbol: str, consulted: Consulted) -> bool:
    """Whether the object file that a command made is there and names a kernel.

    Host code registers each kernel of its unit with the runtime by the symbol, whether it is CUDA's or HIP's.
    """
    path = _output(command)
    if path is None:
        return False
    try:
        if not path.is_file() or path.stat().st_size == 0:
            return False
        consulted.exists(path)
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(symbol.encode() + b"\0") >= 0
    except (OSError, ValueError):
        # A name that no file can have; a file that may not be read, or shrinks meanwhile.
        return False


def _output(command: CompileCommand) -> Path | None:
    words = command.arguments
    for word, after in zip(words, (*words[1:], ""), strict=True):
        name, equals, joined = word.partition("=")
        if name in _OUTPUT and (equals or after):
            return command.directory / (joined if equals else after)
    return None
