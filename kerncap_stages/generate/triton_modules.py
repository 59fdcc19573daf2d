"""Writes the Python modules of a Triton project: the kernel's functions, and all that they use."""

from __future__ import annotations

import ast
import keyword
import re
from typing import TYPE_CHECKING

from kerncap_stages.errors import Refused
from kerncap_stages.generate.triton_values import HINT, bind, check_name, list_spaces
from kerncap_stages.manifests.os_strings import to_os_string

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerncap_stages.manifests.triton import TritonFunction, TritonKernel, TritonValue

KERNEL_MODULE = "kernel_variant"
OTHERS = "triton_sources"
_MAX_NAME = 60  # characters of a module's name
# What every module imports. A function or a value of the program may have these names, too.
_IMPORTED = {"triton": ("module", "triton"), "tl": ("module", "triton.language")}


class _Module:
    """One module of the project: functions of one of the program's that agree on what names stand for."""

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.path = path
        self.functions: dict[int, TritonFunction] = {}  # by their places in the record
        self.uses: dict[str, TritonValue] = {}
        self._meanings: dict[str, object] = dict(_IMPORTED)

    def take(self, place: int, function: TritonFunction) -> bool:
        """Take a function, unless one of its names has another meaning here."""
        meanings: dict[str, object] = {use.name: _find_meaning(use) for use in function.uses}
        own_name = get_name(function)
        if meanings.setdefault(own_name, place) != place:
            return False  # within itself, its name means something else
        if any(self._meanings.get(name, meaning) != meaning for name, meaning in meanings.items()):
            return False
        self._meanings |= meanings
        self.uses |= {use.name: use for use in function.uses}
        self.functions[place] = function
        return True


class TritonModules:
    """The modules of a kernel: that of the kernel's function, then those of the functions that it calls.

    Each holds under its own names what its functions use. Two functions of one module of the program that use
    one name in two ways, as a closure may, become two modules. Raises Refused for what cannot be written.
    """

    def __init__(self, triton: TritonKernel, symbol: str) -> None:
        self._symbol = symbol  # of the compiled kernel
        self._modules: list[_Module] = []
        self._places: list[_Module] = []  # of each function
        names: set[str] = set()
        for place, function in enumerate(triton.functions):
            full_name = f"{function.module}.{function.qualified_name}"
            if full_name in names:  # two closures of one function
                raise Refused(f"Triton takes one of two functions {full_name} for the other", hint=HINT)
            names.add(full_name)
            check_name(get_name(function))
            self._places.append(self._find_room(place, function))

    def render(self) -> dict[str, bytes]:
        """Return the modules' texts by their paths. Raises Refused if one cannot stand alone."""
        return {
            f"{module.name.replace('.', '/')}.py": self._render_module(module).encode(
                errors="surrogateescape"
            )
            for module in self._modules
        }

    def find(self, value: TritonValue) -> tuple[str, str]:
        """Return the project's module and the name of a function that a value stands for."""
        if value.function is None or value.function >= len(self._places):
            raise Refused(f"the source of {value.text} was not recorded", hint=HINT)
        module = self._places[value.function]
        return module.name, get_name(module.functions[value.function])

    def _find_room(self, place: int, function: TritonFunction) -> _Module:
        path = f"{to_os_string(function.path)}:{function.module}"
        for module in self._modules:
            if module.path == path and module.take(place, function):
                return module
        module = _Module(self._choose_name(function.module), path)
        if not module.take(place, function):
            raise Refused(
                f"{function.qualified_name} has a name, or uses one, that means something else in a project",
                hint=HINT,
            )
        self._modules.append(module)
        return module

    def _choose_name(self, module: str) -> str:
        if not self._modules:
            return KERNEL_MODULE
        plain = re.sub(r"\W", "_", module, flags=re.ASCII)[:_MAX_NAME]
        if not plain.isidentifier() or keyword.iskeyword(plain):
            plain = f"module_{plain}"
        taken = {each.name for each in self._modules}
        number, name = 1, f"{OTHERS}.{plain}"
        while name in taken:
            number += 1
            name = f"{OTHERS}.{plain}_{number}"
        return name

    def _render_module(self, module: _Module) -> str:
        path = to_os_string(next(iter(module.functions.values())).path)
        parts = [
            f'"""Functions of {_make_plain(path)}, as Triton compiled them, and what they use."""',
            "from __future__ import annotations",
            "\n".join(_render_early(module.uses)),
            *(self._render_function(place, function) for place, function in module.functions.items()),
            "\n".join(self._render_late(module)),
        ]
        return "\n\n\n".join(part for part in parts if part) + "\n"

    def _render_function(self, place: int, function: TritonFunction) -> str:
        """Return a function's own text, with no decorator but Triton's compiler."""
        options = ["noinline=True"] if function.noinline else []
        if function.has_own_name and place == 0:
            options.append(f"repr=lambda _: {self._symbol!r}")
        _check_text(function)
        arguments = f"({', '.join(options)})" if options else ""
        decorator = "language.constexpr" if function.decorator == "constexpr" else function.decorator
        return f"@triton.{decorator}{arguments}\n{function.text.rstrip()}"

    def _render_late(self, module: _Module) -> Iterator[str]:
        """Yield the lines that bind names of functions: at the end, as modules may use each other."""
        for name, use in sorted(module.uses.items()):
            if use.type_name != "function":
                continue
            other, function = self.find(use)
            if other == module.name:
                if name != function:
                    yield f"{name} = {function}"
            elif "." in name:
                local = f"_{name.replace('.', '_')}"
                yield f"from {other} import {function} as {local}\n{name} = {local}"
            else:
                yield f"from {other} import {function} as {name}"


def get_name(function: TritonFunction) -> str:
    """Return the name that ``def`` binds."""
    return function.qualified_name.rpartition(".")[2]


def _find_meaning(use: TritonValue) -> object:
    """Return what a name stands for, to be compared: a function's place, or a value."""
    return use.function if use.type_name == "function" else (use.type_name, use.text)


def _check_text(function: TritonFunction) -> None:
    """Refuse a text that is not one function of the name that was recorded."""
    try:
        nodes = ast.parse(function.text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Refused(
            f"the source of {function.qualified_name} cannot be read: {error}", hint=HINT
        ) from error
    definition = nodes[0] if len(nodes) == 1 else None
    if not isinstance(definition, ast.FunctionDef) or definition.name != get_name(function):
        raise Refused(f"the source of {function.qualified_name} is not one `def` of it", hint=HINT)
    # A default is evaluated before the names of functions are bound.
    defaults = [each for each in (*definition.args.defaults, *definition.args.kw_defaults) if each]
    named = {node.id for each in defaults for node in ast.walk(each) if isinstance(node, ast.Name)}
    for use in function.uses:
        if use.type_name == "function" and use.name.partition(".")[0] in named:
            raise Refused(f"{function.qualified_name} has the function {use.name} as a default", hint=HINT)


def _render_early(uses: dict[str, TritonValue]) -> Iterator[str]:
    """Yield the imports, then the lines that bind names which no module of the project defines."""
    spaces = [space for name in sorted(uses) for space in list_spaces(name)]
    if spaces:
        yield "import types\n"
    yield "import triton\nimport triton.language as tl\n"
    for space in dict.fromkeys(spaces):
        yield f"{space} = types.ModuleType({space!r})"
    for name, use in sorted(uses.items()):
        if use.type_name != "function" and _IMPORTED.get(name) != _find_meaning(use):
            yield bind(use)


def _make_plain(text: str) -> str:
    return "".join(char if char.isprintable() and char not in '"\\' else "?" for char in text)
