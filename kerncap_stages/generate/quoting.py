"""Quotes text for a Makefile or Markdown: names come from programs that anybody may have written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerncap_stages.code.targets import parse_target
from kerncap_stages.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._+-]+")
_PLAIN = re.compile(r"[^A-Za-z0-9 .,:;_+/@%=()<>*&\[\]{}'-]")


def quote_make_value(text: str) -> str:
    """Quote a text as the literal value of a make variable."""
    if "\n" in text or "\r" in text:
        raise ValueError("a make variable cannot hold a line break")
    return text.replace("$", "$$").replace("#", r"\#")


def quote_make_echo(text: str) -> str:
    """Make the first line of a text safe for a double-quoted echo in a recipe."""
    first, *more = text.strip().splitlines() or [""]
    return _PLAIN.sub("", " ".join(first.split())) + (" (all of it: README.md)" if more else "")


def quote_markdown(text: str) -> str:
    """Quote a text for a code span in a Markdown table."""
    cleaned = "".join(char if char.isprintable() else "?" for char in text)
    return cleaned.replace("`", "'").replace("|", r"\|")


def choose_compiler(path: str, is_named: Callable[[str], bool], otherwise: str) -> str:
    """Return the original compiler if it has a compiler's name and its path is safe in a shell."""
    return path if _PLAIN_PATH.fullmatch(path) and is_named(path) else otherwise


def read_target_name(isa: str) -> str:
    """Return a compiler's name of a target: ``sm_90a``, ``gfx942:xnack-``.

    isa: such as ``amdgcn-amd-amdhsa--gfx942:xnack-``.
    Raises Refused if it is not the name of a target: recipes pass it to a shell.
    """
    target = parse_target(isa)
    if target is None:
        raise Refused(f"{isa!r} is not the name of a GPU target", hint="capture the kernel again")
    return str(target)
