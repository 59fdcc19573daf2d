"""The names that a function of a kernel reads from outside, as Triton looks them up."""

from __future__ import annotations

import ast
import inspect
from collections import ChainMap
from typing import TYPE_CHECKING, Any, Iterator, Mapping

from .values import get_function, is_tritons, read_text

if TYPE_CHECKING:
    from types import FunctionType

# The standard library's modules that kernels use for constants; a project imports them.
_STANDARD = frozenset({"builtins", "math"})


def find_used(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names that a function reads from outside, with what they stand for: ``x``, ``module.x``."""
    function = get_function(value)
    definition: Any = ast.parse(read_text(value) or "").body[0]
    known = ChainMap(_read_closure(function), function.__globals__)  # a copy of a large module's costs time
    arguments = definition.args
    defaults = [each for each in (*arguments.defaults, *arguments.kw_defaults) if each is not None]
    yield from _find_names(defaults, known, set())
    every = (
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    )
    annotations = [each.annotation for each in every if each is not None and each.annotation is not None]
    for name, meaning in _find_names(annotations, known, set()):
        # Triton looks annotations up, but makes nothing of a class such as torch.Tensor.
        yield name, None if inspect.isclass(meaning) and not is_tritons(meaning.__module__) else meaning
    local = {*function.__code__.co_varnames, *function.__code__.co_cellvars}
    yield from _find_names(definition.body, known, local)


def _read_closure(function: FunctionType) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):  # noqa: B905 - Python 3.9
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _find_names(nodes: list[Any], known: Mapping[str, Any], local: set[str]) -> Iterator[tuple[str, Any]]:
    waiting: list[ast.AST] = list(nodes)
    while waiting:
        node = waiting.pop()
        path = _read_path(node)
        if path is None or path[0] in local or path[0] not in known:
            waiting += ast.iter_child_nodes(node)
        else:
            yield _follow(path, known[path[0]])


def _read_path(node: ast.AST) -> list[str] | None:
    """Return ``x.y.z`` as its parts; None for other expressions."""
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.insert(0, node.attr)
        node = node.value
    return [node.id, *path] if isinstance(node, ast.Name) else None


def _follow(path: list[str], value: Any) -> tuple[str, Any]:
    """Follow a path through the program's modules, as far as they are modules; not into Triton's own."""
    name = path[0]
    for part in path[1:]:
        if not inspect.ismodule(value) or is_tritons(value.__name__) or value.__name__ in _STANDARD:
            break
        if part not in vars(value):  # a module may make it when it is asked
            break
        value = vars(value)[part]
        name = f"{name}.{part}"
    return name, value
