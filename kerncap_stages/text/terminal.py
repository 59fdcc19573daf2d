"""Makes text from manifests and programs safe to print on a terminal.

Kernel names, paths and arguments come from programs that nobody vouches for. An escape sequence in one could
rewrite the screen, a line feed could forge a line of output, and a bidirectional override could make a name
look like another one. All of these characters are printed as their escapes.
"""

from __future__ import annotations

import unicodedata

# Cc: control, Cf: format (bidirectional overrides, zero-width joiners), Cs: surrogates (undecodable bytes),
# Co: private use, Cn: unassigned, Zl and Zp: line and paragraph separators.
_SHOWN_ESCAPED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def make_printable(text: str, *, keep_lines: bool = False) -> str:
    """Escape every character that a terminal would act on; ``keep_lines`` keeps line feeds."""
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
