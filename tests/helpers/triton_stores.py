"""Edits of what any Triton kernel stores, found in its text."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# What Triton cannot know: a program's index is never negative.
SAME = "tl.where(tl.program_id(0) >= 0, {}, 0)"
OTHER = "({}) + 1"
OTHER_FP8 = "({}).to(tl.float32) + 1"  # fp8 has no addition
_FUNCTIONS = ("store", "atomic_add")


def edit_stores(text: str, change: str) -> str:
    """Put each stored value into ``change``, which has ``{}`` for it."""
    spans = sorted(_stored(ast.parse(text)), reverse=True)
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    edited = text.encode()
    for (line, column), (end_line, end_column) in spans:
        start, end = starts[line - 1] + column, starts[end_line - 1] + end_column
        value = edited[start:end].decode()
        edited = edited[:start] + change.format(f"({value})").encode() + edited[end:]
    return edited.decode()


def _stored(tree: ast.Module) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Where the values begin and end, as lines from 1 and columns in bytes."""
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        if call.func.attr not in _FUNCTIONS:
            continue
        named = [word.value for word in call.keywords if word.arg in ("value", "val")]
        value = named[0] if named else call.args[1]
        if isinstance(value, ast.Starred):
            continue
        yield (value.lineno, value.col_offset), (value.end_lineno or 0, value.end_col_offset or 0)
