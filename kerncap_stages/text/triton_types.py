"""Types of a Triton kernel's parameters as Triton writes them: ``*fp32``, and tuples of types.

A tuple with names is written as the program's NamedTuple writes itself: ``Pair(a='*fp32', n='i32')``.
"""

from __future__ import annotations

import ast


def read_types(text: str) -> object:
    """Read a parameter's type: a name, or a tuple of types."""
    node = parse_types(text)
    return text if node is None else _read(node)


def parse_types(text: str) -> ast.Tuple | ast.Call | None:
    """Parse the type of a tuple, in which names are those of keywords; None for another type."""
    try:
        node = ast.parse(text, mode="eval").body
        return node if isinstance(node, (ast.Tuple, ast.Call)) and _is_type(node) else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_type(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        is_named = isinstance(node.func, ast.Name) and not node.args
        return is_named and all(each.arg is not None and _is_type(each.value) for each in node.keywords)
    if isinstance(node, ast.Tuple):
        return all(map(_is_type, node.elts))
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _read(node: ast.expr) -> object:
    if isinstance(node, ast.Call):
        return tuple(_read(each.value) for each in node.keywords)
    if isinstance(node, ast.Tuple):
        return tuple(map(_read, node.elts))
    return ast.literal_eval(node)
