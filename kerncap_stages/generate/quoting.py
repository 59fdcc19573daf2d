"""Making text harmless inside a Makefile: names come from programs that anybody may have written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerncap_stages.code.targets import parse_target
from kerncap_stages.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._+-]+")
_PLAIN = re.compile(r"[^A-Za-z0-9 .,:;_+/@%=()<>*&\[\]{}'-]")


def make_value(text: str) -> str:
    """A value of a make variable, taken literally."""
    if "\n" in text or "\r" in text:
        raise ValueError("a make variable cannot hold a line break")
    return text.replace("$", "$$").replace("#", r"\#")


def make_echo(text: str) -> str:
    """The first line of a text, for a double-quoted echo in a recipe, without what means something there."""
    first, *more = text.strip().splitlines() or [""]
    return _PLAIN.sub("", " ".join(first.split())) + (" (all of it: README.md)" if more else "")


def markdown(text: str) -> str:
    """Text for a code span in a Markdown table."""
    cleaned = "".join(char if char.isprintable() else "?" for char in text)
    return cleaned.replace("`", "'").replace("|", r"\|")


def named_compiler(path: str, is_named: Callable[[str], bool], otherwise: str) -> str:
    """The original compiler, if it is called like one and its path means nothing to a shell."""
    return path if _PLAIN_PATH.fullmatch(path) and is_named(path) else otherwise


def target_name(isa: str) -> str:
    """What a compiler calls a target: ``gfx942:xnack-`` of ``amdgcn-amd-amdhsa--gfx942:xnack-``, ``sm_90a``.

    Raises Refused for what is no target's name: recipes give it to a shell.
    """
    target = parse_target(isa)
    if target is None:
        raise Refused(f"{isa!r} is no name of a GPU target", hint="capture the kernel again")
    return str(target)
