"""Records the arguments of a launch that may be captured: what the user's call gave, not only its addresses.

A launch that no capture follows only asks the capture library, if it is of a kernel that the user selected.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import re
from typing import Any

from .files import LAUNCH_PREFIX, RECORD_SUFFIX, replace, report
from .libraries import find_libraries
from .values import unwrap, write_plain

RULES = "KERNCAP_TRITON_RULES"  # the variable that says which kernels are selected
KEPT = 256  # records of a process: Python may launch on while the device works on earlier launches

# Each is [how names are compared, pattern, grid or null].
_rules: list[Any] = json.loads(os.environ.get(RULES) or "[]")
_selected: dict[str, bool] = {}  # by the kernels' names
_wrapped: set[type] = set()
_numbers = itertools.count()
_ask: Any = None  # whether a capture is expected: chosen at the first launch


def is_selected(name: str) -> bool:
    """Whether the user selected kernels of this name."""
    if name not in _selected:
        _selected[name] = any(_has_name(rule, name) for rule in _rules)
    return _selected[name]


def watch(kernel: Any) -> None:
    """Record launches of a compiled kernel if the user selected it, while a capture is expected."""
    if is_selected(kernel.name) and type(kernel) not in _wrapped:
        _wrapped.add(type(kernel))
        _wrap_launches(type(kernel))


def _wrap_launches(kind: Any) -> None:
    """Wrap what Triton calls right before each launch, on the same thread, with the call's arguments.

    It is the class's: torch.compile writes the attributes of a kernel to its cache.
    """
    make = kind.launch_metadata

    @functools.wraps(make)
    def record_and_make(self: Any, grid: Any, stream: Any, *args: Any) -> Any:
        if _selected.get(self.name):
            try:
                if is_expected():
                    digest = hashlib.sha256(self.kernel).hexdigest()
                    record(self.name, digest, grid, _name_arguments(self, args))
            except Exception:
                report(f"the arguments of {self.name} cannot be recorded")
        return make(self, grid, stream, *args)

    kind.launch_metadata = record_and_make


def is_expected() -> bool:
    """Whether one of the next dispatches may be captured."""
    return bool((_ask or _choose_ask())())


def _choose_ask() -> Any:
    """Choose what a launch asks: once, as the GPU is in use where a kernel is launched."""
    global _ask
    found = [library.kerncap_expects_capture for library in find_libraries()]
    for ask in found:
        ask.argtypes = ()
    _ask = found[0] if len(found) == 1 else (lambda: any(ask() for ask in found)) if found else int
    return _ask


def record(kernel: str, code_object: str, grid: Any, arguments: list[tuple[str, Any]]) -> None:
    """Write the record of a launch if the user selected its grid.

    code_object: the SHA-256 of the binary. grid: programs of up to three axes. arguments: names and values,
    in the kernel's order, without compile-time constants: the kernel's own record has these.
    """
    programs = [int(grid[axis]) if axis < len(grid) else 1 for axis in range(3)]
    if not any(_has_name(rule, kernel) and _has_grid(rule, programs) for rule in _rules):
        return
    number = next(_numbers)
    launch = {
        "code_object": code_object,
        "process_id": os.getpid(),
        "number": number,
        "grid_programs": programs,
        "arguments": [_describe(name, value) for name, value in arguments],
    }
    name = f"{LAUNCH_PREFIX}{os.getpid()}-{number % KEPT}{RECORD_SUFFIX}"
    replace(name, json.dumps(launch).encode())


def _has_name(rule: Any, name: str) -> bool:
    """Whether a rule selects a kernel, as collect/selection.py decides. Triton does not mangle names."""
    match, pattern, _ = rule
    if match == "substring":
        return pattern in name
    if match == "regex":
        return re.search(pattern, name) is not None
    return bool(match == "any" or pattern.removesuffix(".kd") == name)


def _has_grid(rule: Any, programs: list[int]) -> bool:
    return all(wanted in (0, size) for wanted, size in zip(rule[2] or programs, programs))  # noqa: B905 - Python 3.9


def _name_arguments(kernel: Any, args: tuple[Any, ...]) -> list[tuple[str, Any]]:
    """Name what a call passed, elements of tuples too, without compile-time constants."""
    names = list(kernel.src.fn.arg_names)
    constant = {names.index(key) if isinstance(key, str) else key for key in _list_constants(kernel.src)}
    paths = [(place,) for place in range(len(names))]
    if len(args) != len(names):  # before Triton 3.3
        paths = [path for path in paths if not kernel.src.fn.params[path[0]].is_constexpr]
    found = []
    for path, value in zip(paths, args):  # noqa: B905 - Python 3.9
        for inner, each in _flatten(path, value):
            if inner not in constant and inner[0] not in constant:
                name = names[inner[0]] + "".join(f"[{part}]" for part in inner[1:])
                found.append((name, each))
    return found


def _list_constants(source: Any) -> list[Any]:
    return list(getattr(source, "constants", None) or getattr(source, "constexprs", None) or ())


def _flatten(path: tuple[int, ...], value: Any) -> list[tuple[tuple[int, ...], Any]]:
    if not isinstance(value, (tuple, list)):
        return [(path, value)]
    return [found for place, each in enumerate(value) for found in _flatten((*path, place), each)]


def _describe(name: str, value: Any) -> dict[str, Any]:
    """Describe one argument. What cannot be described says why; the others are described all the same."""
    described: dict[str, Any] = {"name": name, "type_name": type(value).__name__}
    try:
        plain = unwrap(value)
        if callable(getattr(value, "data_ptr", None)):
            described |= {"type_name": "tensor", "tensor": _describe_tensor(value)}
        elif hasattr(value, "block_shape") and hasattr(value, "base"):
            tensor = _describe_tensor(value.base)
            tensor |= {"shape": _read_integers(value.shape), "strides": _read_integers(value.strides)}
            block = _read_integers(value.block_shape)
            described |= {"type_name": "descriptor", "tensor": tensor, "block_shape": block}
        elif (text := write_plain(plain)) is not None:
            described |= {"type_name": "none" if plain is None else type(plain).__name__, "text": text}
        else:
            described |= {"type_name": f"{type(value).__module__}.{type(value).__qualname__}"}
            described |= {"unknown": "it is neither a tensor nor a plain value"}
    except Exception as error:
        described |= {"tensor": None, "unknown": f"{type(error).__name__}: {error}"}
    return described


def _describe_tensor(value: Any) -> dict[str, Any]:
    """Describe a tensor as torch's, or as much as another object with an address tells of itself."""
    strides = getattr(value, "stride", None)
    offset = getattr(value, "storage_offset", None)
    storage = getattr(value, "untyped_storage", None)
    return {
        "address": int(value.data_ptr()),
        "dtype": str(value.dtype).rpartition(".")[2],
        "shape": _read_integers(getattr(value, "shape", None)),
        "strides": _read_integers(strides() if callable(strides) else strides),
        "storage_offset_elements": int(offset()) if callable(offset) else None,
        "storage_size_bytes": int(storage().nbytes()) if callable(storage) else None,
    }


def _read_integers(values: Any) -> list[int] | None:
    return None if values is None else [int(each) for each in values]
