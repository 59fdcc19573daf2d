"""Writes and reads what a Triton kernel was compiled with: ``SIZE=32, num_warps=4``."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from kerncap_stages.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

# A value may have commas itself, but not before a name and "=".
_BEGIN = re.compile(r"(?:^|,)\s*([^\W\d][\w.\[\]]*)\s*=(?!=)")


def format_configuration(values: Mapping[str, str]) -> str:
    """Write the values by name."""
    return ", ".join(f"{name}={text}" for name, text in values.items())


def parse_configuration(text: str) -> dict[str, str]:
    """Read values by name, as they were written. Raises UsageError for any other text."""
    begins = list(_BEGIN.finditer(text))
    ends = [*(each.start() for each in begins[1:]), len(text)]
    values = {each[1]: text[each.end() : end].strip() for each, end in zip(begins, ends, strict=False)}
    if not begins or begins[0].start() != 0 or not all(values.values()) or len(values) != len(begins):
        raise UsageError(
            f"--configuration takes values by name, not {text!r}",
            hint="--configuration 'SIZE=32, num_warps=4'; `kc-show` of a profile lists them",
        )
    return values


def has_values(configuration: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether a configuration has all of these values. A string may be given without its quotes."""
    return all(name in configuration and _is_same(configuration[name], text) for name, text in wanted.items())


def _is_same(text: str, wanted: str) -> bool:
    if text == wanted:
        return True
    try:
        value = ast.literal_eval(text)
        return bool(value == wanted or value == ast.literal_eval(wanted))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
