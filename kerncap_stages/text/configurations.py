"""Writes and reads what a Triton kernel was compiled with: ``SIZE=32, num_warps=4``."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from kerncap_stages.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# A value may have commas itself: in a string, in brackets, or not before a name and "=".
_PART = re.compile(
    r"""(?P<string>(?<!\w)(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"))"""
    r"|(?P<bracket>[(\[{}\])])"
    r"|(?:^|,)\s*(?P<name>[^\W\d][\w.\[\]]*)\s*=(?!=)"
)


def format_configuration(values: Mapping[str, str]) -> str:
    """Write the values by name."""
    return ", ".join(f"{name}={text}" for name, text in values.items())


def parse_configuration(text: str) -> dict[str, str]:
    """Read values by name, as they were written. Raises UsageError for any other text."""
    begins = list(_find_begins(text))
    ends = [*(each.start() for each in begins[1:]), len(text)]
    values = {each["name"]: text[each.end() : end].strip() for each, end in zip(begins, ends, strict=False)}
    if not begins or begins[0].start() != 0 or not all(values.values()) or len(values) != len(begins):
        raise UsageError(
            f"--configuration takes values by name, not {text!r}",
            hint="--configuration 'SIZE=32, num_warps=4'; `kc-show` of a profile lists them",
        )
    return values


def _find_begins(text: str) -> Iterator[re.Match[str]]:
    """Yield each name with its "=", outside of strings and brackets."""
    depth = 0
    for part in _PART.finditer(text):
        if part["bracket"]:
            depth = max(0, depth + (1 if part["bracket"] in "([{" else -1))
        elif part["name"] and depth == 0:
            yield part


def has_values(configuration: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether a configuration has all of these values. A string may be given without its quotes."""
    return all(name in configuration and _is_same(configuration[name], text) for name, text in wanted.items())


def _is_same(text: str, wanted: str) -> bool:
    if text == wanted:
        return True
    try:
        value = ast.literal_eval(text)
        if value == wanted:
            return True
        other = ast.literal_eval(wanted)
        return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
