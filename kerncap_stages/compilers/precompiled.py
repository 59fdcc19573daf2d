"""Finds the headers of a unit that an edit of one file does not change, so that they are parsed once.

clang can keep headers that it has parsed in a file (a precompiled header), if they come before everything
else. In a unit they often do not: the edited file may be a header itself, in the midst of others. So a header
of our own includes what is read before the edited file, and what the edited file includes. All files must be
preprocessed to the same text with it as without it.
Projects do the same: templates/hip/compile_kernel.sh.j2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kerncap_stages.compilers.dependencies import find_first_error, run_compiler
from kerncap_stages.compilers.header_text import Head, read_head, write_header
from kerncap_stages.compilers.inclusions import Included, read_inclusions
from kerncap_stages.errors import DeviceError

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.compilers.installed import Compiler
    from kerncap_stages.compilers.kernel_unit import KernelUnit

TO_PRECOMPILE = ("-c", "-emit-llvm", "-Xclang", "-emit-pch")
TO_INSTANTIATE = ("-Xclang", "-fpch-instantiate-templates")  # and not when a unit uses it
TO_USE = ("-Xclang", "-include-pch", "-Xclang")
WORTH_BYTES = 7 << 20  # of headers: half as much again as those that any HIP program includes


@dataclass(frozen=True)
class Precompiled:
    """``text``: the header that is precompiled. It stands for ``heads`` as long as they stay as they are.

    instantiated: what the header ends with so that it also has the kernel's templates instantiated.
    """

    text: str
    heads: tuple[Head, ...]
    instantiated: Instantiated | None = None


@dataclass(frozen=True)
class Instantiated:
    """The edited file's text in a namespace of its own, and the digest of what that file declares."""

    text: str
    declared: str


def find_precompiled(compiler: Compiler, unit: KernelUnit, edited: Path, folder: Path) -> Precompiled | None:
    """Find what can be precompiled while ``edited`` is changed; None if that is nothing.

    folder: where the header is written for trying.
    Raises DeviceError if the compiler cannot be run, or a file cannot be read.
    """
    without = preprocess(compiler, unit, folder)
    if without is None:
        return None
    made = write_header(without, partial(preprocess, compiler, unit, folder), {edited.resolve()}, folder)
    if made is None:
        return None
    try:
        heads = dict.fromkeys(map(read_head, made.apart))
    except OSError as error:
        raise DeviceError(f"{error.filename} cannot be read: {error.strerror}") from error
    return Precompiled(made.text, tuple(heads))


def precompile(compiler: Compiler, unit: KernelUnit, made: Precompiled, folder: Path) -> tuple[str, ...]:
    """Precompile a header in ``folder``, and return the flags with which a unit uses it.

    Raises DeviceError if that fails.
    """
    name = "precompiled" if made.instantiated is None else "instantiated"
    header, output = folder / f"{name}.hpp", folder / f"{name}.pch"
    added = "" if made.instantiated is None else made.instantiated.text
    header.write_text(made.text + added, encoding="utf-8")
    words = ("-w", *TO_PRECOMPILE, *(TO_INSTANTIATE if added else ()), "-o", str(output), str(header))
    done = run_compiler(compiler.make_command(unit.target, unit.flags, *words), unit.directory)
    if done.returncode != 0:
        raise DeviceError(f"the headers cannot be precompiled: {find_first_error(done.stderr)}")
    return (*TO_USE, str(output))


def preprocess(compiler: Compiler, unit: KernelUnit, folder: Path, *extra: str) -> Included | None:
    """Preprocess a unit, and read who includes whom; None if the compiler refuses."""
    output = folder / "unit.i"
    words = ("-w", *extra, "-E", "-dD", "-dI", "-o", str(output), str(unit.path))
    done = run_compiler(compiler.make_command(unit.target, unit.flags, *words), unit.directory)
    return read_inclusions(output, unit.path, unit.directory) if done.returncode == 0 else None
