"""Finds the Python function of a Triton kernel whose program recorded nothing, by reading files as Python."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.locate.python_modules import Function, PythonTree, read_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kerncap_stages.compilers.consulted import Consulted
    from kerncap_stages.compilers.line_tables import LineTables
    from kerncap_stages.locate.python_modules import PythonModule

_SUFFIX = re.compile(r"_0[cde\d]*$")  # before version 3, Triton appended how it specialized the arguments
_ADDED_ARGUMENTS = 2  # Triton's own scratch memories


@dataclass(frozen=True)
class PythonKernel:
    """One function that Triton compiles. ``line``: of its first decorator."""

    path: Path
    line: int
    last_line: int
    qualified_name: str
    parameters: tuple[tuple[str, str], ...]  # (name, annotation as written)
    files: tuple[Path, ...]  # its own, then those of the functions and values that it reaches
    by_line_table: bool = False


def find_python_kernels(
    roots: Sequence[Path], name: str, arguments: int | None, tables: LineTables, consulted: Consulted
) -> list[PythonKernel]:
    """Find the functions below ``roots`` from which Triton may have compiled a kernel.

    name: the kernel's. arguments: how many it takes, if that is known. A function of this name in the file of
    the line table's definition goes first: its lines may have moved. Then comes the function at that line,
    whatever its name: ``triton.jit(repr=...)`` names kernels.
    """
    tree = PythonTree(roots, consulted)
    names = {name, _SUFFIX.sub("", name)}
    word = re.compile(rb"\bdef\s+(?:" + b"|".join(re.escape(each.encode()) for each in names) + rb")\b")
    told, line = tables.definition or (None, 0)
    told_names = {path.name for path in tables.paths}
    found: list[tuple[tuple[bool, ...], PythonKernel]] = []
    for path in _list_files(roots, tables, consulted):
        is_told = path.name in told_names
        text = consulted.read(path)
        if text is None or not (is_told or word.search(text)):
            continue
        module = tree.read(path)
        for scopes, function in [] if module is None else _list_functions(module.tree):
            is_there = path == told and _begin(function) <= line <= (function.end_lineno or line)
            if module is None or not (is_there or function.name in names):
                continue
            if _is_compiled(tree, module, function):
                kernel = _describe(tree, module, scopes, function, by_line_table=is_there)
                is_named = path == told and function.name in names
                rated = (is_named, is_there, is_told, function.name == name, _takes(kernel, arguments))
                found.append((rated, kernel))
    best = max((rated for rated, _ in found), default=None)
    return [kernel for rated, kernel in found if rated == best]


def _list_files(roots: Sequence[Path], tables: LineTables, consulted: Consulted) -> list[Path]:
    found = [path for path in tables.paths if path.suffix == ".py" and consulted.exists(path)]
    for root in roots:
        listed = consulted.list_sources(root) if root.is_dir() else [root]
        found += [path for path in listed if path.suffix == ".py"]
    return list(dict.fromkeys(found))


def _list_functions(tree: ast.Module) -> Iterator[tuple[tuple[str, ...], ast.FunctionDef]]:
    """Yield all functions of a file, with the names of what they are in."""
    waiting: list[tuple[tuple[str, ...], ast.AST]] = [((), tree)]  # a stack: an `elif` is nested in its `if`
    while waiting:
        scopes, node = waiting.pop()
        if isinstance(node, ast.FunctionDef):
            yield scopes, node
        if isinstance(node, Function):
            scopes = (*scopes, node.name, "<locals>")
        elif isinstance(node, ast.ClassDef):
            scopes = (*scopes, node.name)
        inner = [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.expr)]
        waiting += [(scopes, each) for each in reversed(inner)]


def _begin(function: ast.FunctionDef) -> int:
    return min([function.lineno, *(each.lineno for each in function.decorator_list)])


def _takes(kernel: PythonKernel, arguments: int | None) -> bool:
    """Whether a kernel can have so many arguments: constants and the number 1 are none of them."""
    given = [name for name, annotation in kernel.parameters if "constexpr" not in annotation]
    return arguments is None or arguments <= len(given) + _ADDED_ARGUMENTS


def _list_parameters(function: ast.FunctionDef) -> list[tuple[str, str]]:
    listed = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return [(each.arg, "" if each.annotation is None else ast.unparse(each.annotation)) for each in listed]


def _is_compiled(tree: PythonTree, module: PythonModule, function: ast.FunctionDef) -> bool:
    """Whether Triton compiles a function: by a decorator, or by a call in its file that takes it."""
    if any(_is_jit(tree, module, each) for each in function.decorator_list):
        return True
    return any(
        isinstance(node, ast.Call)
        and any(isinstance(each, ast.Name) and each.id == function.name for each in node.args)
        and _is_jit(tree, module, node.func)
        for node in ast.walk(module.tree)
    )


def _is_jit(tree: PythonTree, module: PythonModule, node: ast.expr, seen: set[int] | None = None) -> bool:
    """Whether an expression stands for ``triton.jit``, under whatever name. seen: what was looked at."""
    seen = set() if seen is None else seen
    if id(node) in seen:
        return False
    seen.add(id(node))
    if isinstance(node, ast.Call):  # jit(debug=True), partial(jit, debug=True)
        given = [node.func, *(each for each in node.args if read_path(each) is not None)]
        return any(_is_jit(tree, module, each, seen) for each in given)
    path = read_path(node)
    if path is None:
        return False
    if path[0] not in module.bindings and not module.stars:
        return _is_tritons(".".join(path))
    for where, found in tree.follow(module, path):
        if isinstance(found, str):
            if _is_tritons(found):
                return True
        elif where is not None:
            # A function of the program may call it, and be used as a decorator in its place.
            calls = [each.func for each in ast.walk(found) if isinstance(each, ast.Call)]
            inner = calls if isinstance(found, Function) else [found]
            if any(_is_jit(tree, where, each, seen) for each in inner):
                return True
    return False


def _is_tritons(name: str) -> bool:
    """Whether a whole name is that of Triton's compiler; a package that hands it on may be out of sight."""
    parts = name.split(".")
    return parts[-1] == "jit" and any("triton" in part for part in parts[:-1])


def _describe(
    tree: PythonTree,
    module: PythonModule,
    scopes: tuple[str, ...],
    function: ast.FunctionDef,
    *,
    by_line_table: bool,
) -> PythonKernel:
    return PythonKernel(
        path=module.path,
        line=_begin(function),
        last_line=function.end_lineno or function.lineno,
        qualified_name=".".join((*scopes, function.name)),
        parameters=tuple(_list_parameters(function)),
        files=tuple(_reach(tree, module, function)),
        by_line_table=by_line_table,
    )


def _reach(tree: PythonTree, module: PythonModule, function: ast.FunctionDef) -> list[Path]:
    """Return the files of all that a function reads, directly or not: its own first."""
    files = {module.path: None}
    waiting: list[tuple[PythonModule, ast.AST]] = [(module, function)]
    seen = {id(function)}
    while waiting:
        where, node = waiting.pop()
        for path in _list_paths(node):
            for other, found in tree.follow(where, path):
                # `module.name.attribute` may end at a value: what it is, the file shows.
                if other is None or isinstance(found, str) or id(found) in seen:
                    continue
                seen.add(id(found))
                files.setdefault(other.path, None)
                waiting.append((other, found))
    return list(files)


def _list_paths(node: ast.AST) -> Iterator[list[str]]:
    """Yield the names that a function or an expression reads: ``x``, ``module.x``."""
    waiting: list[ast.AST] = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Function):  # what decorates it is not compiled
            waiting += [each.args, *each.body]
            continue
        path = read_path(each) if isinstance(each, ast.expr) else None
        if path is None:
            waiting += ast.iter_child_nodes(each)
        else:
            yield path
