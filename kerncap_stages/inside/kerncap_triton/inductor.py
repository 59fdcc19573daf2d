"""Watches torch.compile: it launches kernels in its own way, and takes some from its cache without Triton."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
import weakref
from importlib import import_module
from threading import Lock
from types import FunctionType
from typing import Any

from . import launches
from .configurations import record_named_configuration
from .files import RECORD_SUFFIX, exists, report

# The variable that names the assembler. Torch's workers use that of torch's wheel.
PTXAS = "TRITON_PTXAS_PATH"

# Selected kernels of torch's cache that Triton has not made here, with the SHA-256 of each binary.
_unrecorded: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
_one_compiler = Lock()


def watch(module: Any, is_whole: bool, is_brief: bool) -> None:
    """Wrap what makes launchers. ``module``: torch._inductor.runtime.triton_heuristics.

    torch before 2.7 has no such classes: its launches are not described.
    """
    if not (is_whole or is_brief):
        return
    for made in list(vars(module).values()):
        if isinstance(made, type) and "make_launcher" in vars(made) and made.__name__ != "CompileResult":
            _wrap_launchers(made, is_whole, is_brief)
    if is_whole:
        _compile_again_behind(module.CachingAutotuner)


def follow_workers(module: Any) -> None:
    """Let the processes in which torch compiles kernels record them, too: put us on their path.

    module: torch._inductor.compile_worker.subproc_pool.
    """
    make = getattr(module, "python_subprocess_env", None)
    if make is None:
        return

    @functools.wraps(make)
    def make_environment(*args: Any, **kwargs: Any) -> Any:
        made = make(*args, **kwargs)
        try:
            ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
            made["PYTHONPATH"] = os.pathsep.join(filter(None, [ours, made.get("PYTHONPATH")]))
        except Exception:
            report("what torch's workers compile is not recorded")
        return made

    module.python_subprocess_env = make_environment


def _wrap_launchers(made: Any, is_whole: bool, is_brief: bool) -> None:
    make = made.make_launcher

    @functools.wraps(make)
    def make_launcher(self: Any) -> Any:
        digest = None
        try:
            name = self.kernel.name
            if is_brief or launches.is_selected(name):
                code = _read_code(self)  # the launcher drops it
                digest = hashlib.sha256(code).hexdigest()
                if is_brief:
                    constants, options = self.compile_meta["constants"], vars(self.config)
                    record_named_configuration(name, code, name, constants, options)
        except Exception:
            report(f"the kernel {_name(self)} of torch.compile cannot be recorded")
        launcher = make(self)
        try:
            if is_whole and digest is not None and launches.is_selected(name):
                if not exists(digest + RECORD_SUFFIX):
                    _unrecorded[self] = digest
                return _watch_launches(launcher, name, digest, self.compile_meta)
        except Exception:
            report(f"the arguments of {_name(self)} cannot be recorded")
        return launcher

    made.make_launcher = make_launcher


def _name(result: Any) -> str:
    return str(getattr(getattr(result, "kernel", None), "name", "?"))


def _read_code(result: Any) -> bytes:
    """Read a kernel's binary: Triton's object has it, torch's own launcher knows its file."""
    kernel = result.kernel
    if not hasattr(kernel, "cubin_path"):
        return bytes(kernel.kernel)
    if not kernel.cubin_path:
        result.reload_cubin_path()
    with open(kernel.cubin_path, "rb") as file:
        return file.read()


def _compile_again_behind(tuner: Any) -> None:
    """Let Triton make the selected kernels that torch took from its own cache: so they are recorded.

    Triton finds them in its cache.
    """
    precompile = tuner.precompile

    @functools.wraps(precompile)
    def precompile_and_record(self: Any, *args: Any, **kwargs: Any) -> Any:
        done = precompile(self, *args, **kwargs)
        for result in getattr(self, "compile_results", None) or ():
            digest = _unrecorded.pop(result, None)
            if digest is not None:
                try:
                    _compile_again(self, result.config, digest)
                except Exception:
                    report(f"the kernel {_name(result)} of torch.compile cannot be recorded")
        return done

    tuner.precompile = precompile_and_record


def _compile_again(tuner: Any, config: Any, digest: str) -> None:
    """Compile a kernel as this process does, or else as torch's workers do: either may have made it."""
    tuner._reload_kernel()._precompile_config(config)
    if not exists(digest + RECORD_SUFFIX):
        with _like_a_worker():
            tuner._reload_kernel()._precompile_config(config)
    if not exists(digest + RECORD_SUFFIX):
        raise RuntimeError("Triton makes other code of it now than torch's cache holds")


@contextlib.contextmanager
def _like_a_worker() -> Any:
    """Let Triton use the assembler of torch's wheel for a moment, as torch's workers do."""
    choose = getattr(
        import_module("torch._inductor.runtime.compile_tasks"), "_set_triton_ptxas_path", lambda: None
    )
    nvidia = sys.modules.get("triton.backends.nvidia.compiler")
    # torch does this once in a process. We undo it, so it must neither be done already nor count as done.
    choose = getattr(choose, "__wrapped__", choose)
    # Triton remembers the assembler's version, by which it finds kernels in its cache.
    forget = getattr(getattr(nvidia, "get_ptxas_version", None), "cache_clear", lambda: None)
    with _one_compiler:
        before = os.environ.get(PTXAS)
        try:
            choose()
            forget()
            yield
        finally:
            if before is None:
                os.environ.pop(PTXAS, None)
            forget()


def _watch_launches(launcher: Any, kernel: str, digest: str, meta: dict[str, Any]) -> Any:
    """Wrap a launcher that torch generated: it computes the grid and calls its global ``runner``."""
    code = launcher.__code__
    parameters = code.co_varnames[: code.co_argcount]
    passed = [
        name
        for name, kind in meta["signature"].items()
        if kind != "constexpr" and name not in meta["constants"] and name in parameters
    ]

    @functools.wraps(launcher)
    def describe_and_launch(*args: Any, **kwargs: Any) -> Any:
        try:
            if launches.is_expected():
                given = {**dict(zip(parameters, args)), **kwargs}  # noqa: B905 - Python 3.9
                grid = _compute_grid(launcher, args, kwargs)
                launches.record(kernel, digest, grid, [(name, given[name]) for name in passed])
        except Exception:
            report(f"the arguments of {kernel} cannot be recorded")
        return launcher(*args, **kwargs)

    return describe_and_launch


def _compute_grid(launcher: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Run the launcher with a runner that only keeps what it is given: the grid comes first."""
    found: list[tuple[Any, ...]] = []
    names = {**launcher.__globals__, "runner": lambda *given: found.append(given[:3])}
    FunctionType(launcher.__code__, names)(*args, **kwargs)
    return found[0]
