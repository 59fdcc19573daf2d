"""Python values as their types and texts: JSON has no NaN, no data type and no function."""

from __future__ import annotations

import inspect
import math
import sys
from types import BuiltinFunctionType, FunctionType
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
        described["text"] = f"{value.fn.__module__}:{value.fn.__qualname__}"
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


def find_jitted(value: Any) -> list[Any]:
    """Return a value if Triton parses it, or those of its elements that it does."""
    value = unwrap(value)
    if type(value) in (tuple, list):
        return [found for each in value for found in find_jitted(each)]
    return [value] if is_jitted(value) else []


def is_tritons(module_name: Any) -> bool:
    """Whether a module is a part of Triton, by its name."""
    return isinstance(module_name, str) and module_name.split(".")[0] == "triton"
