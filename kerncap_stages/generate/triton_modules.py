"""Writes the Python modules of a Triton project: the kernel's functions, and all that they use."""

from __future__ import annotations

import ast
import re
import textwrap
from typing import TYPE_CHECKING

from kerncap_stages.errors import Refused
from kerncap_stages.manifests.os_strings import to_os_string

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.triton import TritonFunction, TritonKernel, TritonValue

KERNEL_MODULE = "kernel_variant"
OTHERS = "triton_sources"
_IMPORTED = {("tl", "triton.language"), ("triton", "triton")}  # by every module
_VALUES = frozenset({"bool", "dtype", "float", "int", "none", "str", "tuple"})
_HINT = "edit the instructions instead"


class TritonModules:
    """The modules of a kernel: that of the kernel's function, then those of the functions that it calls.

    Each holds under its own names what its functions use. texts: whole source files, by their digests.
    """

    def __init__(self, triton: TritonKernel, texts: Mapping[Digest, bytes]) -> None:
        self._texts = texts
        self._functions: dict[str, list[TritonFunction]] = {}
        for function in triton.functions:
            self._functions.setdefault(function.module, []).append(function)
        self._modules: dict[str, str] = {}  # the program's name of a module -> the project's
        for number, module in enumerate(self._functions):
            plain = re.sub(r"\W", "_", module, flags=re.ASCII)
            taken = f"{OTHERS}.{plain}" in self._modules.values()
            other = f"{OTHERS}.{plain}_{number}" if taken else f"{OTHERS}.{plain}"
            self._modules[module] = other if number else KERNEL_MODULE

    def render(self) -> dict[str, bytes]:
        """Return the modules' texts by their paths. Raises Refused if one cannot stand alone."""
        return {
            f"{self._modules[module].replace('.', '/')}.py": self._render_module(module).encode(
                errors="surrogateescape"
            )
            for module in self._functions
        }

    def find(self, name: str) -> tuple[str, str]:
        """Return the project's module and the name of a function ``module:qualified name``."""
        module, _, qualified = name.partition(":")
        if module not in self._modules:
            raise Refused(f"the source of {name} was not recorded", hint=_HINT)
        return self._modules[module], qualified.rpartition(".")[2]

    def _render_module(self, module: str) -> str:
        functions = self._functions[module]
        path = to_os_string(functions[0].path)
        uses = {use.name: use for function in functions for use in function.uses}
        parts = [
            f'"""Functions of {_make_plain(path)}, as Triton compiled them, and what they use."""',
            "\n".join(_render_early(uses)),
            *(self._render_function(function) for function in functions),
            "\n".join(self._render_late(module, uses)),
        ]
        return "\n\n\n".join(part for part in parts if part) + "\n"

    def _render_late(self, module: str, uses: Mapping[str, TritonValue]) -> Iterator[str]:
        """Yield the lines that bind names of functions: at the end, as modules may use each other."""
        for name, use in sorted(uses.items()):
            if use.type_name != "function":
                continue
            other, function = self.find(use.text)
            if other == self._modules[module]:
                if name != function:
                    yield f"{name} = {function}"
            elif "." in name:
                local = f"_{name.replace('.', '_')}"
                yield f"from {other} import {function} as {local}\n{name} = {local}"
            else:
                yield f"from {other} import {function} as {name}"

    def _render_function(self, function: TritonFunction) -> str:
        """Return a function's own text, with no decorator but Triton's compiler."""
        lines = self._texts[function.source.digest].decode(errors="surrogateescape").splitlines()
        text = textwrap.dedent("\n".join(lines[function.line - 1 : function.end_line]))
        try:
            node = ast.parse(text).body[0]
        except (SyntaxError, IndexError) as error:
            raise Refused(
                f"the source of {function.qualified_name} cannot be read: {error}", hint=_HINT
            ) from error
        if not isinstance(node, ast.FunctionDef):
            raise Refused(f"{function.qualified_name} is not defined by `def`", hint=_HINT)
        body = "\n".join(text.splitlines()[node.lineno - 1 :])
        return f"@triton.jit{_find_jit_options(node)}\n{body}"


def _render_early(uses: Mapping[str, TritonValue]) -> Iterator[str]:
    """Yield the imports, then the lines that bind names which no module of the project defines."""
    spaces = [space for name in sorted(uses) for space in _list_spaces(name)]
    if spaces:
        yield "import types"
    if any(re.search(r"\b(inf|nan)\b", use.text) for use in uses.values()):
        yield "from math import inf, nan"
    yield "\nimport triton\nimport triton.language as tl\n"
    for space in dict.fromkeys(spaces):
        yield f"{space} = types.ModuleType({space!r})"
    # Modules last: the program may call another one `tl`.
    for name, use in sorted(uses.items(), key=lambda item: (item[1].type_name == "module", item[0])):
        if use.type_name != "function" and (name, use.text) not in _IMPORTED:
            yield _bind(name, use)


def _list_spaces(name: str) -> list[str]:
    """Return the modules of a name: those of ``a.b.x`` are ``a`` and ``a.b``."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _bind(name: str, use: TritonValue) -> str:
    """Write a line that binds a name to a module, to a part of Triton, or to a value."""
    if use.type_name == "module" and re.fullmatch(r"(triton|math|builtins)(\.\w+)*", use.text):
        local = name.replace(".", "_")
        line = f"import {use.text}" if name == use.text else f"import {use.text} as {local}"
        return line if local == name else f"{line}\n{name} = {local}"
    if use.type_name == "import":
        module, _, own_name = use.text.partition(":")
        local = name.replace(".", "_")
        line = f"from {module} import {own_name}" + ("" if local == own_name else f" as {local}")
        return line if local == name else f"{line}\n{name} = {local}"
    if use.type_name == "dtype":
        return f"{name} = {use.text}"
    if use.type_name in _VALUES:
        return f"{name} = tl.constexpr({use.text})"
    raise Refused(f"the kernel uses {use.name}, a Python object of type {use.type_name}", hint=_HINT)


def _find_jit_options(node: ast.FunctionDef) -> str:
    """Return the arguments of @triton.jit(...) if they are plain values, such as noinline=True."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).rpartition(".")[2] == "jit":
            plain = [each for each in decorator.keywords if each.arg and isinstance(each.value, ast.Constant)]
            return f"({', '.join(ast.unparse(each) for each in plain)})" if plain else ""
    return ""


def _make_plain(text: str) -> str:
    return "".join(char if char.isprintable() and char not in '"\\' else "?" for char in text)
