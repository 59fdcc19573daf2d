"""Compiles a HIP unit for one kernel in less time than a build takes.

Other kernels are left out. Headers are parsed before, and the templates that the kernel uses of them are
instantiated.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.compilers.dependencies import find_first_error, run_compiler
from kerncap_stages.compilers.instantiated import find_instantiated
from kerncap_stages.compilers.one_kernel import compile_one_kernel
from kerncap_stages.compilers.precompiled import Precompiled, find_precompiled, precompile
from kerncap_stages.errors import DeviceError
from kerncap_stages.machine.temporary import TemporaryFolder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.compilers.installed import Compiler
    from kerncap_stages.compilers.kernel_unit import KernelUnit


@dataclass(frozen=True)
class Shortcut:
    """A faster way to compile a unit, and the code object that it gives.

    code: None if it gives none; ``problem`` says why.
    """

    code: bytes | None = None
    one_kernel: bool = False
    precompiled: Precompiled | None = None
    problem: str | None = None


def try_shortcuts(
    compiler: Compiler, unit: KernelUnit, edited: Path | None, *, one_kernel: bool
) -> Iterator[Shortcut]:
    """Compile a unit in faster ways, the fastest first.

    edited: the file that is changed from one compilation to the next; None if no headers are precompiled.
    one_kernel: leave out the other kernels, if that is worth it.
    """
    with TemporaryFolder("shortcuts") as folder:
        made, extra = _precompile(compiler, unit, edited, folder)
        alone = _compile_alone(compiler, unit, made, extra) if one_kernel else None
        if alone is not None:
            yield alone
            if made is not None:
                yield _compile_alone(compiler, unit) or Shortcut()
        if made is not None:
            more = _instantiate(compiler, unit, made, extra, edited, folder) if edited is not None else None
            if more is not None:
                yield _compile_whole(compiler, unit, *more)
            yield _compile_whole(compiler, unit, made, extra)


def compile_unit(compiler: Compiler, unit: KernelUnit, extra: Sequence[str] = ()) -> bytes:
    """Compile a unit with all of its kernels to a code object. ``extra``: more flags.

    Raises DeviceError with the compiler's message if the unit cannot be compiled.
    """
    with TemporaryFolder("trial") as name:
        output = Path(name) / "code"
        rest = ("-w", *extra, "--no-gpu-bundle-output", "-o", str(output), str(unit.path))
        result = run_compiler(compiler.make_command(unit.target, unit.flags, *rest), unit.directory)
        if result.returncode != 0 or not output.is_file():
            raise DeviceError(f"{unit.path} does not compile: {find_first_error(result.stderr)}")
        return output.read_bytes()


def _precompile(
    compiler: Compiler, unit: KernelUnit, edited: Path | None, folder: Path
) -> tuple[Precompiled | None, tuple[str, ...]]:
    """Precompile headers, and return the flags that use them; (None, ()) if that cannot be done."""
    try:
        made = None if edited is None else find_precompiled(compiler, unit, edited, folder)
        return (None, ()) if made is None else (made, precompile(compiler, unit, made, folder))
    except DeviceError:
        return None, ()


def _instantiate(
    compiler: Compiler, unit: KernelUnit, made: Precompiled, plain: Sequence[str], edited: Path, folder: Path
) -> tuple[Precompiled, tuple[str, ...]] | None:
    """Instantiate templates before, too; None if that cannot be done, or is not worth it."""
    try:
        return find_instantiated(compiler, unit, made, plain, edited, folder)
    except DeviceError:
        return None


def _compile_alone(
    compiler: Compiler, unit: KernelUnit, made: Precompiled | None = None, extra: Sequence[str] = ()
) -> Shortcut | None:
    """Compile one kernel; None if that is not worth it."""
    try:
        code = compile_one_kernel(compiler, unit, extra)
    except DeviceError as error:
        return Shortcut(one_kernel=True, problem=str(error))
    return None if code is None else Shortcut(code, one_kernel=True, precompiled=made)


def _compile_whole(compiler: Compiler, unit: KernelUnit, made: Precompiled, extra: Sequence[str]) -> Shortcut:
    try:
        return Shortcut(compile_unit(compiler, unit, extra), precompiled=made)
    except DeviceError as error:
        return Shortcut(problem=str(error))
