"""Finds which kernels a module defines, and where, in LLVM's assembly and its debug information.

Reads lines such as

    !88 = distinct !DISubprogram(name: "k", linkageName: "_Z1kPf", scope: !1, file: !1, line: 7, ...)
    !1 = !DIFile(filename: "src/k.hip", directory: "/w")

The place of a function that a macro makes is the use of the outermost macro.
"""

from __future__ import annotations

import re
from pathlib import Path

_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2})")
_TEXT = r'"((?:[^"\\]|\\.)*)"'
_FILE = re.compile(rf"^(!\d+) = (?:distinct )?!DIFile\(filename: {_TEXT}, directory: {_TEXT}", re.MULTILINE)
_DEFINITION = re.compile(r"^!\d+ = distinct !DISubprogram\((.*)\)$", re.MULTILINE)
_NAME = re.compile(rf"(?:^|, )(name|linkageName): {_TEXT}")
_KERNEL = re.compile(rf"^define [^@\n]*\bamdgpu_kernel [^@\n]*@(?:{_TEXT}|([-\w$.]+))\(", re.MULTILINE)
_PLACE = re.compile(r", file: (!\d+), line: (\d+)")


def defines_kernel(assembly: str, symbol: str) -> bool:
    """Whether a module for AMD's GPUs defines the kernel with this symbol."""
    found = _KERNEL.finditer(assembly)
    return any((match[2] if match[1] is None else _unescape(match[1])) == symbol for match in found)


def find_definition(assembly: str, symbol: str) -> tuple[Path, int] | None:
    """Find (path, line) of the function with this symbol; None if the module does not define it."""
    for definition in _DEFINITION.finditer(assembly):
        names = {match[1]: _unescape(match[2]) for match in _NAME.finditer(definition[1])}
        place = _PLACE.search(definition[1])
        if names.get("linkageName", names.get("name")) != symbol or place is None:
            continue
        for file in _FILE.finditer(assembly):
            if file[1] == place[1]:
                return Path(_unescape(file[3]), _unescape(file[2])), int(place[2])
    return None


def _unescape(text: str) -> str:
    raw = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    return raw.encode("latin-1", errors="surrogateescape").decode(errors="surrogateescape") if raw else raw
