"""Instantiates the templates that a kernel uses before an edit, so that only the edited file's own are left.

In libraries of templates clang takes most of its time to instantiate what the kernel uses of other headers. A
precompiled header keeps it, if something in that header uses it. That is a copy of the edited file, in a
namespace of its own, in which all names of the original namespaces are found.

A template that is instantiated before the edited file is read does not see the file's functions. So the front
end must make the same functions with it as without it, and an edit must not declare others.
Projects do the same: templates/hip/compile_kernel.sh.j2.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages._native import demangle
from kerncap_stages.compilers.copied_text import copy_edited
from kerncap_stages.compilers.declared_script import digest_declared
from kerncap_stages.compilers.dependencies import run_compiler
from kerncap_stages.compilers.header_text import read_text
from kerncap_stages.compilers.one_kernel import TO_BITCODE
from kerncap_stages.compilers.precompiled import Instantiated, precompile, preprocess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.compilers.installed import Compiler
    from kerncap_stages.compilers.kernel_unit import KernelUnit
    from kerncap_stages.compilers.precompiled import Precompiled

WORTH_FUNCTIONS = 1000  # that the front end makes of the unit: below, it takes about a second
_OF_COMMAND = "__hip_cuid_"  # clang's digest of the command


def find_instantiated(
    compiler: Compiler, unit: KernelUnit, made: Precompiled, plain: Sequence[str], edited: Path, folder: Path
) -> tuple[Precompiled, tuple[str, ...]] | None:
    """Find what a precompiled header can instantiate; return that header, and the flags that use it.

    made: the header without instantiations; the flags ``plain`` use it.
    None if it is not worth it, or if the front end makes other functions with it.
    Raises DeviceError if a compiler cannot be run, or does not compile the copy.
    """
    functions = _list_functions(compiler, unit, plain, folder)
    if len(functions) < WORTH_FUNCTIONS:
        return None
    read = partial(preprocess, compiler, unit, folder)
    copied = copy_edited(made.text, read, {edited.resolve()}, demangle(unit.symbol), folder)
    if copied is None:
        return None
    header = replace(made, instantiated=Instantiated(copied, digest_declared(read_text(edited))))
    flags = precompile(compiler, unit, header, folder)
    return (header, flags) if _list_functions(compiler, unit, flags, folder) == functions else None


def _list_functions(compiler: Compiler, unit: KernelUnit, extra: Sequence[str], folder: Path) -> list[str]:
    """List the symbols that the front end makes, sorted; none if it fails, or if llvm-nm is missing."""
    output = folder / "functions.bc"
    words = ("-w", *extra, "--no-gpu-bundle-output", *TO_BITCODE, "-o", str(output), str(unit.path))
    done = run_compiler(compiler.make_command(unit.target, unit.flags, *words), unit.directory)
    tool = Path(compiler.path).resolve().parent / "llvm-nm"
    if done.returncode != 0 or not tool.is_file():
        return []
    listed = run_compiler([str(tool), "--just-symbol-name", "--no-sort", str(output)], unit.directory)
    return sorted(line for line in listed.stdout.splitlines() if not line.startswith(_OF_COMMAND))
