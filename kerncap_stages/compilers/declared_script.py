"""Reads what a C++ file declares outside of functions and classes.

A template of a header can find a function that is declared after the header, by its arguments. It cannot find
what stands in a function or in a class of its own. So templates that were instantiated before an edit stay
right as long as the edit is in there.

kc-locate uses this file, and projects have a copy of it: it needs Python alone.

usage: python3 headers/declared_script.py FILE, which prints a digest of what the file declares.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONTINUED = re.compile(r"\\\r?\n")
# Comments, strings and characters may hold braces. A number may hold quotes: 1'000.
_PART = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r"|^[ \t]*(?P<directive>#[^\n]*)"
    r'|(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])+'"
    r"|\.?\d(?:'?[\w.])*"
    r"|\w+|\S",
    re.DOTALL | re.MULTILINE,
)
_SCOPE = re.compile(r"((inline )?namespace\b.*|extern \"C(\+\+)?\")")
# Says how a kernel is compiled, and no template of a header sees it.
_BOUNDS = re.compile(r"__launch_bounds__ \( [^()]* \) ")
# These bodies are evaluated by the compiler, or tell the function's type.
_TELLING = frozenset({"constexpr", "consteval", "auto", "requires"})


class UnreadableError(Exception):
    """Braces do not pair up, as far as one sees without the preprocessor."""


def list_declared(text: str) -> Iterator[str]:
    """Yield what stands outside of functions and classes, piece by piece, without most bodies.

    Directives are among it wherever they stand, but for pragmas in a body. Raises UnreadableError.
    """
    words: list[str] = []
    body: list[str] = []
    depth = scopes = 0  # open braces: in a body; of namespaces
    for match in _PART.finditer(_CONTINUED.sub(" ", text)):
        part = match[0].strip()
        if match["comment"]:
            continue
        if match["directive"]:
            if not depth or not part[1:].lstrip().startswith("pragma"):
                yield part
        elif depth:
            depth += (part == "{") - (part == "}")
            body.append(part)
            if not depth:
                yield " ".join(words + (body if not _TELLING.isdisjoint(words) else ["}"]))
                words, body = [], []
        elif part == "{" and _SCOPE.fullmatch(" ".join(words)):
            scopes += 1
            yield " ".join(words) + " {"
            words = []
        elif part == "{":
            depth = 1
            words.append(part)
        elif part in (";", "}"):
            scopes -= part == "}"
            yield " ".join([*words, part])
            words = []
        else:
            words.append(part)
    if depth or scopes or words:
        raise UnreadableError


def digest_declared(text: str) -> str:
    """Return the SHA-256 of what a file declares; of its whole text if that cannot be told."""
    try:
        declared = _BOUNDS.sub("", "\n".join(list_declared(text)))
    except UnreadableError:
        declared = text
    return hashlib.sha256(declared.encode(errors="surrogateescape")).hexdigest()


if __name__ == "__main__":
    print(digest_declared(Path(sys.argv[1]).read_text(encoding="utf-8", errors="surrogateescape")))
