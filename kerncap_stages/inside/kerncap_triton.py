"""Records what Triton compiles in this process: a captured kernel can be traced to its Python function.

Runs in the user's program: the standard library only, in every Python that Triton supports, and no exception
of it reaches the program. Each compiled kernel becomes a file of JSON, named by the SHA-256 of its binary;
each source file a copy, named by the SHA-256 of its text. What fails is written to ``errors``.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import os
import sys
import tempfile
import textwrap
import threading
import traceback
from types import FunctionType, ModuleType
from typing import Any, Callable, Iterator

FOLDER = "KERNCAP_TRITON_RECORDS"  # the variable that names the folder
ERRORS = "errors"
SOURCE_SUFFIX = ".py"
RECORD_SUFFIX = ".json"

_COMPILER = "triton.compiler.compiler"
_AUTOTUNER = "triton.runtime.autotuner"
# Of a compiled kernel's metadata: what identifies it, and results of the compilation.
_NO_OPTIONS = {
    *("hash", "name", "target", "triton_version"),
    *("shared", "tmem_size", "tensordesc_meta"),
    *("global_scratch_size", "global_scratch_align", "profile_scratch_size", "profile_scratch_align"),
}
# The standard library's modules that kernels use for constants; a project imports them.
_STANDARD = frozenset({"builtins", "math"})
_folder = os.environ.get(FOLDER, "")  # the program may change its environment later
_lock = threading.Lock()
_tuned: set[int] = (
    set()
)  # ids of functions that an autotuner configures; they live as long as their decorators


def watch_imports() -> None:
    """Watch for the import of Triton. Costs nothing until then."""
    if _folder:
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds two modules of Triton as the others would, and wraps them once they are loaded."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        wrap = {_COMPILER: _wrap_compiled_kernel, _AUTOTUNER: _wrap_autotuner}.get(name)
        if wrap is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    _run_behind(spec.loader, wrap)
                return spec
        return None


def _run_behind(loader: Any, wrap: Callable[[Any], None]) -> None:
    load = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        load(module)
        try:
            wrap(module)
        except Exception:
            _report("Triton cannot be watched")

    loader.exec_module = exec_module


def _wrap_compiled_kernel(module: Any) -> None:
    """Wrap what every kernel passes, compiled or found in Triton's cache, in all versions of Triton."""
    kernel_class = module.CompiledKernel
    make = kernel_class.__init__

    def make_and_record(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        try:
            _record(self)
        except Exception:
            _report(f"the kernel {getattr(self, 'name', '?')} cannot be recorded")

    kernel_class.__init__ = make_and_record


def _wrap_autotuner(module: Any) -> None:
    tuner_class = module.Autotuner
    make = tuner_class.__init__

    def make_and_record(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        try:
            _tuned.add(id(_find_innermost(self)))
        except Exception:
            _report("an autotuner cannot be recorded")

    tuner_class.__init__ = make_and_record


def _find_innermost(function: Any) -> Any:
    """Return the jitted function, without autotuners and heuristics around it."""
    while not isinstance(function.fn, FunctionType):
        function = function.fn
    return function


def _record(kernel: Any) -> None:
    source = kernel.src
    function = getattr(source, "fn", None)
    if function is None:  # compiled from a file of Triton's own IR
        return
    names = list(function.arg_names)
    metadata = kernel.metadata._asdict() if hasattr(kernel.metadata, "_asdict") else dict(kernel.metadata)
    constants = _read_constants(source)
    target = kernel.metadata.target
    called = [value for value in constants.values() if _is_jitted(value)]
    record = {
        "function_name": function.fn.__name__,
        "parameter_names": names,
        "signature": [[_name_argument(names, key), str(kind)] for key, kind in source.signature.items()],
        "constexprs": [
            _describe_value(_name_argument(names, key), value) for key, value in constants.items()
        ],
        "options": [
            _describe_value(name, metadata[name]) for name in sorted(metadata) if name not in _NO_OPTIONS
        ],
        "specialization": _describe_specialization(names, source.attrs),
        "target": [str(target.backend), str(target.arch), int(target.warp_size)],
        "functions": [_describe_function(each) for each in _reach([function, *called])],
        "autotuned": id(function) in _tuned,
        "triton_version": sys.modules["triton"].__version__,
        "triton_folder": os.path.dirname(
            os.path.dirname(os.path.abspath(sys.modules["triton"].__file__ or ""))
        ),
        "python": sys.executable or "",
    }
    _write(hashlib.sha256(kernel.kernel).hexdigest() + RECORD_SUFFIX, json.dumps(record).encode())


def _read_constants(source: Any) -> dict[Any, Any]:
    constants: Any = getattr(source, "constants", None) or getattr(source, "constexprs", None)
    return dict(constants or {})


def _describe_specialization(names: list[str], attributes: Any) -> list[list[str]]:
    """Describe what Triton found out about the arguments: [parameter, attribute, value]."""
    if not isinstance(attributes, dict):  # before Triton 3.3
        listed: Any = getattr(attributes, "divisibility_16", None) or getattr(
            attributes, "divisible_by_16", None
        )
        return [[_name_argument(names, key), "tt.divisibility", "16"] for key in listed or ()]
    return [
        [_name_argument(names, key), str(each[0]), str(each[1])]
        for key, found in attributes.items()
        for each in found or ()
    ]


def _name_argument(names: list[str], key: Any) -> str:
    """Return a parameter's name. Triton counts parameters; an element of a tuple has a path."""
    path = key if isinstance(key, tuple) else (key,)
    first = names[path[0]] if isinstance(path[0], int) else str(path[0])
    return first + "".join(f"[{part}]" for part in path[1:])


def _describe_value(name: str, value: Any) -> dict[str, str]:
    kind, text = _describe(value)
    return {"name": name, "type_name": kind, "text": text}


def _describe(value: Any) -> tuple[str, str]:
    """Return a value's type and its text as Python writes it: JSON has no NaN, no data type and no function.

    A function is ``module:qualified name``.
    """
    if type(value).__name__ == "constexpr":
        value = value.value
    if value is None:
        return "none", "None"
    if _is_jitted(value):
        return "function", f"{value.fn.__module__}:{value.fn.__qualname__}"
    if isinstance(value, (tuple, list)):
        inside = [_describe(each)[1] for each in value]
        return "tuple", f"({', '.join(inside)})" if len(inside) != 1 else f"({inside[0]},)"
    kind = type(value).__name__
    if kind == "dtype":
        return kind, f"tl.dtype({str(value)!r})"
    return kind, repr(value)


def _is_jitted(value: Any) -> bool:
    """Whether a value is a function that @triton.jit wraps."""
    return isinstance(getattr(value, "fn", None), FunctionType) and hasattr(value, "arg_names")


def _is_tritons(module_name: str | None) -> bool:
    return (module_name or "").split(".")[0] == "triton"


def _reach(functions: list[Any]) -> list[Any]:
    """Return the jitted functions of the program that these call, directly or not, after themselves."""
    found: list[Any] = []
    waiting = list(functions)
    while waiting:
        jitted = waiting.pop(0)
        if any(jitted is each for each in found) or _is_tritons(jitted.fn.__module__):
            continue
        found.append(jitted)
        waiting += [value for _, value in _find_used(jitted.fn) if _is_jitted(value)]
    return found


def _describe_function(jitted: Any) -> dict[str, Any]:
    function = jitted.fn
    lines, first = inspect.getsourcelines(function)
    text = "".join(inspect.findsource(function)[0]).encode("utf-8", "surrogateescape")
    name = hashlib.sha256(text).hexdigest() + SOURCE_SUFFIX
    _write(name, text)
    uses = {name: _describe_use(name, value) for name, value in _find_used(function)}
    return {
        "module": function.__module__,
        "qualified_name": function.__qualname__,
        "path": os.path.abspath(inspect.getsourcefile(function) or function.__code__.co_filename),
        "line": max(first, 1),
        "end_line": max(first, 1) + len(lines) - 1,
        "file": name,
        "uses": [uses[name] for name in sorted(uses)],
    }


def _describe_use(name: str, value: Any) -> dict[str, str]:
    """Describe what a name outside of a function stands for."""
    if inspect.ismodule(value):
        return {"name": name, "type_name": "module", "text": value.__name__}
    module = getattr(value, "__module__", None)
    own_name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if _is_jitted(value):
        module = value.fn.__module__
        own_name = value.fn.__qualname__
    if own_name and _is_tritons(module):
        return {"name": name, "type_name": "import", "text": f"{module}:{own_name}"}
    return _describe_value(name, value)


def _find_used(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names that a function reads from outside, with what they stand for: ``x``, ``module.x``."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    outside = inspect.getclosurevars(function)
    known = {**outside.globals, **outside.nonlocals}
    decorators = {id(each) for node in tree.body for each in getattr(node, "decorator_list", ())}
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if id(node) in decorators:
            continue
        path = _read_path(node)
        if path is None or path[0] not in known:
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
        if not inspect.ismodule(value) or _is_tritons(value.__name__) or value.__name__ in _STANDARD:
            break
        if not hasattr(value, part):
            break
        value = getattr(value, part)
        name = f"{name}.{part}"
    return name, value


def _write(name: str, data: bytes) -> None:
    """Write a file as a whole, or not at all. Another process may write the same one."""
    path = os.path.join(_folder, name)
    if os.path.exists(path):
        return
    handle, temporary = tempfile.mkstemp(dir=_folder)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.replace(temporary, path)


def _report(what: str) -> None:
    """Tell the collector of a failure: what failed, and Python's last words. Never raises."""
    try:
        last = traceback.format_exc(limit=-1).strip().splitlines()[-1]
        with _lock, open(os.path.join(_folder, ERRORS), "a", encoding="utf-8") as file:
            file.write(f"{what}: {last}\n")
    except Exception:
        pass
