"""One record for each kernel that Triton compiles, or takes from its cache."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import re
import sys
import weakref
from types import FunctionType
from typing import Any

from . import inductor, launches, trials
from .configurations import record_configuration
from .files import (
    BOTH,
    BRIEF,
    PTX_SUFFIX,
    RECORD,
    RECORD_SUFFIX,
    SOURCE_SUFFIX,
    WHOLE,
    exists,
    report,
    write,
)
from .names import find_used
from .values import describe_value, find_functions, get_function, is_tritons, read_text

# Of a compiled kernel's metadata: what identifies it, and results of the compilation.
_NO_OPTIONS = {
    *("hash", "name", "target", "triton_version"),
    *("shared", "tmem_size", "tensordesc_meta"),
    *("global_scratch_size", "global_scratch_align", "profile_scratch_size", "profile_scratch_align"),
}
# The variables that name the assembler, of which newer versions of Triton have two.
_ASSEMBLERS = (inductor.PTXAS, "TRITON_PTXAS_BLACKWELL_PATH")
_is_whole = os.environ.get(RECORD) in (WHOLE, BOTH)
_is_brief = os.environ.get(RECORD) in (BRIEF, BOTH)
_tuned: dict[int, weakref.ref[Any]] = {}  # by their ids, the jitted functions that an autotuner configures


def wrap(module: Any) -> None:
    """Wrap what is to be recorded in a module that was just loaded."""
    try:
        if module.__name__ == "triton.compiler.compiler":
            # Every kernel passes here, compiled or found in Triton's cache, in all versions of Triton.
            _run_behind_constructor(module.CompiledKernel, _watch)
        elif module.__name__ == "triton.runtime.autotuner":
            if _is_whole:
                _run_behind_constructor(module.Autotuner, _note_tuner)
            trials.mark(module.Autotuner, "_bench")
        elif module.__name__ == "torch._inductor.compile_worker.subproc_pool":
            inductor.follow_workers(module)
        elif module.__name__ == "torch._inductor.runtime.triton_heuristics":
            trials.mark(module.CachingAutotuner, "bench")
            inductor.watch(module, _is_whole, _is_brief)
        else:  # what times torch.compile's templates and fusions
            for made in list(vars(module).values()):
                if isinstance(made, type) and "benchmark_gpu" in vars(made):
                    trials.mark(made, "benchmark_gpu")
    except Exception:
        report("Triton cannot be watched")


def _run_behind_constructor(made: Any, run: Any) -> None:
    make = made.__init__

    @functools.wraps(make)  # torch.compile looks at the parameters
    def make_and_run(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        try:
            run(self)
        except Exception:
            report(f"the kernel {getattr(self, 'name', '?')} cannot be recorded")

    made.__init__ = make_and_run


def _note_tuner(tuner: Any) -> None:
    jitted = tuner
    while not isinstance(jitted.fn, FunctionType):  # autotuners and heuristics may stand around each other
        jitted = jitted.fn
    _tuned[id(jitted)] = weakref.ref(jitted)


def _is_tuned(jitted: Any) -> bool:
    known = _tuned.get(id(jitted))
    return known is not None and known() is jitted


def _watch(kernel: Any) -> None:
    """Record a compiled kernel, and launches of it that are captured; before its code is loaded."""
    if _is_brief:
        record_configuration(kernel)
    if _is_whole:
        launches.watch(kernel)
        _record(kernel)


def _record(kernel: Any) -> None:
    name = hashlib.sha256(kernel.kernel).hexdigest() + RECORD_SUFFIX
    source = kernel.src
    jitted = getattr(source, "fn", None)
    if jitted is None or exists(name):  # None: compiled from Triton's own IR
        return
    names = list(jitted.arg_names)
    metadata = kernel.metadata._asdict() if hasattr(kernel.metadata, "_asdict") else dict(kernel.metadata)
    if (warps := _read_warps(kernel)) is not None:
        metadata["num_warps"] = warps
    constants = _read_constants(source)
    target = kernel.metadata.target
    used: dict[int, list[tuple[str, Any]]] = {}  # by the functions' ids
    reached = _reach(
        [jitted, *(each for value in constants.values() for each in find_functions(value))], used
    )
    record = {
        "function_name": jitted.fn.__name__,
        "dialect": "gluon" if hasattr(jitted, "is_gluon") and jitted.is_gluon() else "triton",
        "parameter_names": names,
        "signature": [[_name_argument(names, key), str(kind)] for key, kind in source.signature.items()],
        "constexprs": [
            describe_value(_name_argument(names, key), value, reached) for key, value in constants.items()
        ],
        "options": [
            describe_value(option, metadata[option], reached)
            for option in sorted(metadata)
            if option not in _NO_OPTIONS and not option.isupper()
        ],
        "environment": _describe_environment(metadata),
        "specialization": _describe_specialization(names, source.attrs),
        "target": [str(target.backend), str(target.arch), int(target.warp_size)],
        "functions": [_describe_function(each, used[id(each)], reached) for each in reached],
        "autotuned": _is_tuned(jitted),
        "ptx": _write_ptx(kernel),
        "triton_version": sys.modules["triton"].__version__,
        "triton_folder": os.path.dirname(
            os.path.dirname(os.path.abspath(sys.modules["triton"].__file__ or ""))
        ),
        "python": sys.executable or "",
    }
    write(name, json.dumps(record).encode())


def _describe_environment(metadata: dict[str, Any]) -> list[list[str]]:
    """Describe the variables that change what Triton compiles: [name, value]."""
    found = {each: str(metadata[each]) for each in metadata if each.isupper()}
    found |= {each: os.environ[each] for each in _ASSEMBLERS if os.environ.get(each)}
    return [[each, found[each]] for each in sorted(found)]


def _read_warps(kernel: Any) -> int | None:
    """Read the option num_warps: of a warp-specialised kernel the metadata has the warps of all parts."""
    text = kernel.asm.get("ttgir")
    found = re.search(r'"ttg\.num-warps" = (\d+)', text) if isinstance(text, str) else None
    return None if found is None else int(found[1])


def _write_ptx(kernel: Any) -> str | None:
    """Keep the text that a cubin was assembled from; returns the file's name. None on AMD's GPUs."""
    text = kernel.asm.get("ptx")
    if text is None:
        return None
    data = text.encode() if isinstance(text, str) else text
    name = hashlib.sha256(data).hexdigest() + PTX_SUFFIX
    write(name, data)
    return name


def _read_constants(source: Any) -> dict[Any, Any]:
    constants: Any = getattr(source, "constants", None) or getattr(source, "constexprs", None)
    return dict(constants or {})


def _describe_specialization(names: list[str], attributes: Any) -> list[list[str]]:
    """Describe how Triton specialized the arguments: [parameter, attribute, value]."""
    if hasattr(attributes, "arg_properties"):  # Triton 3.2
        values = attributes.property_values
        return [
            [_name_argument(names, key), kind, str(values[kind])]
            for kind, found in attributes.arg_properties.items()
            for key in found
        ]
    if not isinstance(attributes, dict):  # before Triton 3.2
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


def _reach(functions: list[Any], used: dict[int, list[tuple[str, Any]]]) -> list[Any]:
    """Return the first function, then those of the program that it calls, directly or not.

    Adds what each uses to ``used``.
    """
    found: list[Any] = []
    waiting = list(functions)
    while waiting:
        function = waiting.pop(0)
        if any(function is each for each in found) or (
            found and is_tritons(get_function(function).__module__)
        ):
            continue
        found.append(function)
        used[id(function)] = list(find_used(function))
        waiting += [each for _, value in used[id(function)] for each in find_functions(value)]
    return found


def _describe_function(value: Any, used: list[tuple[str, Any]], reached: list[Any]) -> dict[str, Any]:
    function = get_function(value)
    lines, first = _read_lines(value)
    text, line = _read_file(function, lines, max(first, 1))
    data = text.encode("utf-8", "surrogateescape")
    file = hashlib.sha256(data).hexdigest() + SOURCE_SUFFIX
    write(file, data)
    uses = {name: describe_value(name, each, reached) for name, each in used}
    if value is function:
        decorator = "constexpr"
    else:
        decorator = "jit" if hasattr(value, "arg_names") else "constexpr_function"
    return {
        "module": function.__module__ or "",
        "qualified_name": function.__qualname__,
        "path": os.path.abspath(inspect.getsourcefile(function) or function.__code__.co_filename),
        "line": line,
        "end_line": line + max(len(lines), 1) - 1,
        "file": file,
        "text": read_text(value),
        "decorator": decorator,
        "noinline": bool(getattr(value, "noinline", False)),
        "has_own_name": getattr(value, "_repr", None) is not None,
        "uses": [uses[name] for name in sorted(uses)],
    }


def _read_lines(value: Any) -> tuple[list[str], int]:
    """Return a function's lines, with its decorators, and their place in the file when Triton read them."""
    if hasattr(value, "raw_src"):
        return list(value.raw_src), int(value.starting_line_number)
    return inspect.getsourcelines(get_function(value))  # a plain function, or before Triton 3.2


def _read_file(function: FunctionType, lines: list[str], first: int) -> tuple[str, int]:
    """Return the text of the file that has these lines, and where they begin; the lines if it changed."""
    try:
        whole = inspect.findsource(function)[0]
    except (OSError, TypeError, IndexError):
        whole = []
    if whole[first - 1 : first - 1 + len(lines)] == lines:
        return "".join(whole), first
    return "".join(lines), 1
