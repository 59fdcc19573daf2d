"""Python values as their types and texts: JSON has no NaN, no data type and no function."""

from __future__ import annotations
import __future__

import ast
import inspect
import math
import sys
import textwrap
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any


def describe_value(name: str, value: Any, reached: list[Any]) -> dict[str, Any]:
    """Describe a value by its type and its text in Python: JSON has no NaN, no data type and no function.

    A function or a part of Triton is ``module:qualified name``. What has no text of its own has none here:
    the ``repr`` of a foreign object may be anything, and may run on the GPU.
    """
    value = unwrap(value)
    described: dict[str, Any] = {"name": name, "type_name": "", "text": ""}
    place = next((index for index, each in enumerate(reached) if each is value), None)
    if place is not None:
        described |= {"type_name": "function", "function": place}
        function = get_function(value)
        described["text"] = f"{function.__module__}:{function.__qualname__}"
    elif inspect.ismodule(value):
        described |= {"type_name": "module", "text": value.__name__}
    elif (text := write_plain(value)) is not None:
        kind = "none" if value is None else type(value).__name__
        described |= {"type_name": kind, "text": text}
    elif path := find_import(value):
        described |= {"type_name": "import", "text": path}
    else:
        described["type_name"] = f"{type(value).__module__}.{type(value).__qualname__}"
    return described


def find_import(value: Any) -> str | None:
    """Return where a part of Triton is imported from; None for what is not a part of it by its own name."""
    named = value.fn if is_jitted(value) else value
    if not isinstance(named, (FunctionType, BuiltinFunctionType, type)) or not is_tritons(named.__module__):
        return None
    found = vars(sys.modules.get(named.__module__, sys)).get(named.__qualname__)
    return f"{named.__module__}:{named.__qualname__}" if found is value else None


def write_plain(value: Any) -> str | None:
    """Write a value as Python does, if it is made of numbers, strings, data types and the like; else None."""
    value = unwrap(value)
    kind = type(value)
    if kind is float and not math.isfinite(value):
        return f"float({str(value)!r})"
    if value is None or kind in (bool, int, float, str):
        return repr(value)
    if kind in (tuple, list):
        inside = [write_plain(each) for each in value]
        if None in inside:
            return None
        text = ", ".join(each for each in inside if each is not None)
        return f"[{text}]" if kind is list else f"({text}{',' * (len(inside) == 1)})"
    if kind.__name__ == "dtype" and is_tritons(kind.__module__):
        return f"tl.dtype({str(value)!r})"
    return None


def unwrap(value: Any) -> Any:
    """Return what a tl.constexpr holds; another value as it is."""
    while type(value).__name__ == "constexpr" and is_tritons(type(value).__module__):
        value = value.value
    return value


def is_jitted(value: Any) -> bool:
    """Whether a value is a function that Triton parses: @triton.jit, @triton.constexpr_function."""
    return (
        any(
            is_tritons(each.__module__) for each in type(value).__mro__
        )  # else asking it may run foreign code
        and isinstance(getattr(value, "fn", None), FunctionType)
        and isinstance(getattr(value, "src", None), str)
    )


def is_called(value: Any) -> bool:
    """Whether a value is a plain function of the program: Triton calls one that a tl.constexpr holds."""
    return (
        isinstance(value, FunctionType)
        and not is_tritons(value.__module__)
        and not hasattr(value, "__wrapped__")  # its text would be another function's
        and not hasattr(value, "__triton_builtin__")
        and read_text(value) is not None
    )


def find_functions(value: Any) -> list[Any]:
    """Return a value if it is a function that Triton parses or calls, or those of its elements that are."""
    value = unwrap(value)
    if type(value) in (tuple, list):
        return [found for each in value for found in find_functions(each)]
    return [value] if is_jitted(value) or is_called(value) else []


def get_function(value: Any) -> FunctionType:
    """Return Python's function of one that Triton parses or calls."""
    function = value if isinstance(value, FunctionType) else value.fn
    assert isinstance(function, FunctionType)
    return function


def read_text(value: Any) -> str | None:
    """Return a function's text from `def` on; None if there is none, as of a lambda.

    Triton keeps the text that it read. Of a plain function the file may have changed since it was imported.
    """
    if not isinstance(value, FunctionType):
        return str(value.src)
    try:
        text = textwrap.dedent(inspect.getsource(value))
        definition = ast.parse(text).body[0]
        is_current = isinstance(definition, ast.FunctionDef) and _is_text_of(value, text)
    except (OSError, TypeError, SyntaxError, ValueError, IndexError):
        return None
    if not is_current:
        return None
    return "".join(text.splitlines(keepends=True)[definition.lineno - 1 :])


def _is_text_of(function: FunctionType, text: str) -> bool:
    """Whether a text compiles to a function's code. A closure does not, alone: it is taken as it is."""
    code = function.__code__
    if code.co_freevars:
        return True
    flags = code.co_flags & sum(
        getattr(__future__, name).compiler_flag for name in __future__.all_feature_names
    )
    whole = compile(text, "<text>", "exec", flags, dont_inherit=True)
    found = [each for each in whole.co_consts if isinstance(each, CodeType) and each.co_name == code.co_name]
    return len(found) == 1 and _list_code(found[0]) == _list_code(code)


def _list_code(code: CodeType) -> tuple[Any, ...]:
    constants: list[Any] = []
    for each in code.co_consts:
        kind = type(each)
        text = sorted(map(repr, each)) if kind is frozenset else repr(each)
        constants.append(_list_code(each) if kind is CodeType else (kind, text))
    return code.co_code, code.co_names, code.co_varnames, constants


def is_tritons(module_name: Any) -> bool:
    """Whether a module is a part of Triton, by its name."""
    return isinstance(module_name, str) and module_name.split(".")[0] == "triton"
