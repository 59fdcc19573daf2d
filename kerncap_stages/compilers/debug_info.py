"""Where a function is defined, by the debug information in LLVM's assembly: the compiler's own word.

Reads lines such as

    !88 = distinct !DISubprogram(name: "k", linkageName: "_Z1kPf", scope: !1, file: !1, line: 7, ...)
    !1 = !DIFile(filename: "src/k.hip", directory: "/w")

A function that a macro makes is where the outermost macro is used.
"""

from __future__ import annotations

import re
from pathlib import Path

_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2})")
_TEXT = r'"((?:[^"\\]|\\.)*)"'
_FILE = re.compile(rf"^(!\d+) = (?:distinct )?!DIFile\(filename: {_TEXT}, directory: {_TEXT}", re.MULTILINE)
_DEFINITION = re.compile(r"^!\d+ = distinct !DISubprogram\((.*)\)$", re.MULTILINE)
_NAME = re.compile(rf"(?:^|, )(name|linkageName): {_TEXT}")
_PLACE = re.compile(r", file: (!\d+), line: (\d+)")


def defined_at(assembly: str, symbol: str) -> tuple[Path, int] | None:
    """(path, line) of the function of that symbol in a module; None where the module does not define it."""
    for definition in _DEFINITION.finditer(assembly):
        names = {match[1]: _plain(match[2]) for match in _NAME.finditer(definition[1])}
        place = _PLACE.search(definition[1])
        if names.get("linkageName", names.get("name")) != symbol or place is None:
            continue
        for file in _FILE.finditer(assembly):
            if file[1] == place[1]:
                return Path(_plain(file[3]), _plain(file[2])), int(place[2])
    return None


def _plain(text: str) -> str:
    raw = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    return raw.encode("latin-1", errors="surrogateescape").decode(errors="surrogateescape") if raw else raw
