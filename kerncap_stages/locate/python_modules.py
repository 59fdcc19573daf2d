"""Reads Python files as far as Triton's kernels need it: what their names stand for. Nothing is run.

A name may be bound several times, in a ``try`` for example: each binding is looked at.
"""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kerncap_stages.compilers.consulted import Consulted

Function = ast.FunctionDef | ast.AsyncFunctionDef
_TRITON = "triton"
_MAX_NAMES = 1000  # that are followed from one name


@dataclass(frozen=True)
class Imported:
    """A name that stands for a module, ``from_module`` empty, or for ``name`` of a module."""

    module: str
    name: str | None = None
    level: int = 0  # the dots of a relative import


@dataclass(frozen=True)
class PythonModule:
    """One file."""

    path: Path
    tree: ast.Module
    bindings: dict[str, list[Imported | Function | ast.expr]] = field(default_factory=dict)
    stars: list[Imported] = field(default_factory=list)

    @classmethod
    def parse(cls, path: Path, text: bytes) -> PythonModule | None:
        """Parse a file; None if it is not Python, as a file of an older version may be."""
        try:
            with warnings.catch_warnings():  # of the program's text: "\d" in a docstring
                warnings.simplefilter("ignore")
                made = cls(path, ast.parse(text))
            for node in ast.walk(made.tree):
                made._bind(node)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        return made

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for each in node.names:
                module = each.name if each.asname else each.name.partition(".")[0]
                self._add(each.asname or module, Imported(module))
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                found = Imported(node.module or "", each.name, node.level)
                if each.name == "*":
                    self.stars.append(found)
                else:
                    self._add(each.asname or each.name, found)
        elif isinstance(node, Function):
            self._add(node.name, node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self._add(target.id, node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            self._add(node.target.id, node.value)

    def _add(self, name: str, what: Imported | Function | ast.expr) -> None:
        self.bindings.setdefault(name, []).append(what)


class PythonTree:
    """The modules below folders, read when they are asked for."""

    def __init__(self, roots: Sequence[Path], consulted: Consulted) -> None:
        self._roots = [root for root in roots if root.is_dir()]
        self._consulted = consulted
        self._modules: dict[Path, PythonModule | None] = {}
        self._tops: dict[Path, Path] = {}

    def read(self, path: Path) -> PythonModule | None:
        """Return the module of a file."""
        if path not in self._modules:
            text = self._consulted.read(path)
            self._modules[path] = None if text is None else PythonModule.parse(path, text)
        return self._modules[path]

    def follow(
        self, module: PythonModule, path: Sequence[str], seen: set[tuple[Path, str]] | None = None
    ) -> Iterator[tuple[PythonModule | None, Function | ast.expr | str]]:
        """Yield what ``a.b.c`` stands for in a module, for each binding of its names.

        A function or an expression with the module that it is in; of a module that is not the program's, its
        whole name as a text, as ``triton.jit``. seen: the names that were followed to get here.
        """
        first, rest = path[0], list(path[1:])
        seen = set() if seen is None else seen
        if (module.path, ".".join(path)) in seen or len(seen) > _MAX_NAMES:
            return
        seen.add((module.path, ".".join(path)))
        for found in module.bindings.get(first, ()):
            if isinstance(found, Imported):
                yield from self._follow_import(module, found, rest, seen)
            elif isinstance(found, ast.expr) and (inner := read_path(found)) is not None:
                if inner != [first]:
                    yield from self.follow(module, [*inner, *rest], seen)
            elif not rest:
                yield module, found
        if first not in module.bindings:
            for star in module.stars:
                named = Imported(star.module, first, star.level)
                yield from self._follow_import(module, named, rest, seen)

    def _follow_import(
        self, module: PythonModule, found: Imported, rest: list[str], seen: set[tuple[Path, str]]
    ) -> Iterator[tuple[PythonModule | None, Function | ast.expr | str]]:
        names = [] if found.name is None else [found.name]
        names += rest
        parts = [part for part in found.module.split(".") if part]
        # As many names as are modules lead to a file; the next one is defined in it.
        for count in range(len(names), -1, -1):
            other = self._find(module, [*parts, *names[:count]], found.level)
            if other is not None:
                if names[count:]:
                    yield from self.follow(other, names[count:], seen)
                return
        if found.level == 0:
            yield None, ".".join([*parts, *names])

    def _find(self, module: PythonModule, parts: list[str], level: int) -> PythonModule | None:
        """Find a module of the program: of the same package, beside the file, or below a root."""
        if not level and parts[:1] in ([], [_TRITON]):
            return None
        if level:
            places = list(module.path.parents[level - 1 : level])
        else:
            # What another package of the same folder holds, such as site-packages, is not the program's.
            top = self._find_top(module.path.parent)
            packages = module.path.relative_to(top).parts[:-1]
            own = [top] if packages[:1] in ((), (parts[0],)) else []
            places = [*own, *self._roots]
        for place in dict.fromkeys(places):
            whole = place.joinpath(*parts)
            files = [whole.with_name(f"{whole.name}.py")] if parts else []
            for path in (*files, whole / "__init__.py"):
                if path.is_file():
                    return self.read(path)
                self._consulted.note_absent_file(path)
        return None

    def _find_top(self, start: Path) -> Path:
        """Return the folder that the top package of a folder's modules is in."""
        if start not in self._tops:
            folder = start
            while self._consulted.exists(folder / "__init__.py") and folder.parent != folder:
                folder = folder.parent
            self._tops[start] = folder
        return self._tops[start]


def read_path(node: ast.expr) -> list[str] | None:
    """Return ``a.b.c`` as its names; None for other expressions."""
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.insert(0, node.attr)
        node = node.value
    return [node.id, *path] if isinstance(node, ast.Name) else None
