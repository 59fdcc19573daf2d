"""Python lines that bind the names which a Triton kernel uses to what they stood for in its program."""

from __future__ import annotations

import ast
import keyword
import re
from typing import TYPE_CHECKING

from kerncap_stages.errors import Refused
from kerncap_stages.text.triton_types import parse_types

if TYPE_CHECKING:
    from kerncap_stages.manifests.triton import TritonValue

HINT = "edit the instructions instead"
_PLAIN = frozenset({"bool", "dtype", "float", "int", "list", "none", "str", "tuple"})
_MODULES = re.compile(r"(triton|math|builtins)(\.\w+)*", re.ASCII)
_IMPORT = re.compile(r"(triton(?:\.\w+)*):(\w+)", re.ASCII)


def bind(use: TritonValue) -> str:
    """Write the lines that bind a name to a module, to a part of Triton, or to a value. Raises Refused."""
    name = use.name
    check_name(name)
    local = name.replace(".", "_")
    last = "" if local == name else f"\n{name} = {local}"
    if use.type_name == "module" and _MODULES.fullmatch(use.text):
        return f"import {use.text}" if name == use.text else f"import {use.text} as {local}{last}"
    if use.type_name == "import":
        return f"{write_import(use.text, local)}{last}"
    if use.type_name == "dtype":
        return f"{name} = {write_value(use)}"
    return f"{name} = tl.constexpr({write_value(use)})"


def write_import(text: str, local: str) -> str:
    """Write the line that imports a part of Triton, ``module:name``, under a name of its own."""
    found = _IMPORT.fullmatch(text)
    if found is None:
        raise Refused(f"{text} is no part of Triton that can be imported", hint=HINT)
    module, name = found.groups()
    return f"from {module} import {name}" + ("" if local == name else f" as {local}")


def write_value(value: TritonValue) -> str:
    """Return a value's text in Python. Raises Refused if it is no plain value."""
    if value.type_name == "builtins.function":
        raise Refused(
            f"the source of {value.name}, a function, cannot be read, or has changed since it was imported",
            hint=HINT,
        )
    if value.type_name not in _PLAIN:
        raise Refused(f"{value.name} is a Python object of type {value.type_name}", hint=HINT)
    if not is_plain(value.text):
        raise Refused(f"{value.name} is no value that can be written: {value.text[:80]}", hint=HINT)
    return value.text


def is_plain(text: str) -> bool:
    """Whether a text is made of literals, tuples, lists, ``float('inf')`` and ``tl.dtype('fp32')`` alone."""
    try:
        return _is_plain(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _is_plain(node: ast.expr) -> bool:
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(map(_is_plain, node.elts))
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)
    if isinstance(node, ast.Call):
        arguments = [isinstance(each, ast.Constant) and isinstance(each.value, str) for each in node.args]
        return ast.unparse(node.func) in ("float", "tl.dtype") and not node.keywords and arguments == [True]
    return isinstance(node, ast.Constant) and node.value is not ...


def write_type(text: str) -> str:
    """Write a parameter's type as Python: the type of a tuple is one of types, and these may have names.

    ``Pair(a='*fp32', n='i32')``, as the program's NamedTuple writes itself, becomes a namedtuple's.
    """
    node = parse_types(text)
    return repr(text) if node is None else _write_type(node)


def _write_type(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        fields = [each.arg for each in node.keywords]
        types = ", ".join(_write_type(each.value) for each in node.keywords)
        return f"namedtuple({ast.unparse(node.func)!r}, {fields!r})({types})"
    if isinstance(node, ast.Tuple):
        return f"({''.join(f'{_write_type(each)}, ' for each in node.elts)})"
    return repr(ast.literal_eval(node))


def check_name(name: str) -> None:
    """Refuse a name that is not one of Python's, ``x`` or ``module.x``: it becomes a line of code."""
    if not all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split(".")):
        raise Refused(f"{name!r} is not a name in Python", hint=HINT)


def list_spaces(name: str) -> list[str]:
    """Return the modules of a name: those of ``a.b.x`` are ``a`` and ``a.b``."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]
