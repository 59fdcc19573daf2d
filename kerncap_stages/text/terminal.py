"""Text from a manifest or a program, made fit for a terminal.

Kernel names, paths and arguments come from programs that nobody vouches for. An escape sequence in one could
rewrite the screen, a line feed could forge a line of output, and a bidirectional override could make a name
look like another: each such character is shown as its escape.
"""

from __future__ import annotations

import unicodedata

# Cc: control, Cf: format (bidirectional overrides, zero-width joiners), Cs: surrogates (undecodable bytes),
# Co: private use, Cn: unassigned, Zl and Zp: line and paragraph separators.
_SHOWN_ESCAPED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def printable(text: str, *, keep_lines: bool = False) -> str:
    """Escape what a terminal would obey; the result has no control character, or none but line feeds."""
    if text.isprintable():
        return text
    return "".join(
        letter
        if unicodedata.category(letter) not in _SHOWN_ESCAPED or (keep_lines and letter == "\n")
        else _escape(letter)
        for letter in text
    )


def _escape(letter: str) -> str:
    if 0xDC80 <= ord(letter) <= 0xDCFF:  # an undecodable byte, as Python's surrogateescape holds it
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode("ascii")
