"""Watches torch.compile: it launches kernels in its own way, and takes some from its cache without Triton."""

from __future__ import annotations

import functools
import hashlib
import weakref
from types import FunctionType
from typing import Any

from . import launches
from .configurations import record_named_configuration
from .files import RECORD_SUFFIX, exists, report

# Selected kernels of torch's cache that Triton has not made here.
_unrecorded: weakref.WeakSet[Any] = weakref.WeakSet()


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
                    _unrecorded.add(self)
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
            if result in _unrecorded:
                _unrecorded.discard(result)
                try:
                    self._reload_kernel()._precompile_config(result.config)
                except Exception:
                    report(f"the kernel {_name(result)} of torch.compile cannot be recorded")
        return done

    tuner.precompile = precompile_and_record


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
