"""Instantiates the templates that a kernel uses before an edit, so that only the edited file's own are left.

In libraries of templates clang takes most of its time to instantiate what the kernel uses of other headers. A
precompiled header keeps it, if something in that header uses it. That is a copy of the edited file, in a
namespace of its own, in which all names of the original namespaces are found.

A template that is instantiated before the edited file is read does not see the file's functions. So the front
end must make the same functions with it as without it, and an edit must not declare others.
Projects do the same: templates/hip/compile_kernel.sh.j2.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages._native import demangle
from kerncap_stages.compilers.declared_script import UnreadableError, digest_declared, list_declared
from kerncap_stages.compilers.dependencies import run_compiler
from kerncap_stages.compilers.one_kernel import TO_BITCODE
from kerncap_stages.compilers.precompiled import UNWRITABLE, Instantiated, precompile, preprocess, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.compilers.inclusions import Included
    from kerncap_stages.compilers.installed import Compiler
    from kerncap_stages.compilers.kernel_unit import KernelUnit
    from kerncap_stages.compilers.precompiled import Precompiled

WORTH_FUNCTIONS = 1000  # that the front end makes of the unit: below, it takes about a second
# A copy of a kernel would be compiled with the unit. As a function that nobody calls it is not.
_NO_KERNELS = """#undef __global__
#define __global__ __device__
#undef __launch_bounds__
#define __launch_bounds__(...)
"""
_OF_COMMAND = "__hip_cuid_"  # clang's digest of the command
_OWN_NAMESPACE = "kerncap_copy"
_NAMED = re.compile(r"(?:inline )?namespace (\w+(?: : : (?:inline )?\w+)*) \{")


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
    copied = _copy_edited(compiler, unit, made, edited, folder)
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


def _copy_edited(
    compiler: Compiler, unit: KernelUnit, made: Precompiled, edited: Path, folder: Path
) -> str | None:
    """Copy the edited file, and what the unit has before it, into a namespace, and use the kernel there.

    None if the preprocessor fails, or the text cannot be told or written.
    """
    header = folder / "no_kernels.hpp"
    header.write_text(made.text + _NO_KERNELS, encoding="utf-8")
    root = preprocess(compiler, unit, folder, "-include", str(header))
    way = root.find_way(edited.resolve()) if root is not None else []
    if not way:
        return None
    text = "\n".join(_list_lines(way))
    if not text.isascii() and UNWRITABLE.search(text):
        return None
    try:
        spaces = list(dict.fromkeys(_list_namespaces(text)))
    except UnreadableError:
        return None
    name = demangle(unit.symbol)
    is_template = name.startswith("void ")  # names of other functions have no type
    return "\n".join(
        (
            *(f"{_open(space)}{'}' * len(space)}" for space in spaces),
            f"namespace {{ namespace {_OWN_NAMESPACE} {{",
            *(f"{_open(space)}using namespace ::{'::'.join(space)};{'}' * len(space)}" for space in spaces),
            text,
            f"template __attribute__((device)) {name};" if is_template else "",
            "} }",
            "",
        )
    )


def _list_lines(way: Sequence[Included]) -> Iterator[str]:
    """Yield the lines of the files on a way, each up to the next file, without directives but pragmas."""
    for file, following in zip(way, [*way[1:], None], strict=True):
        for part in file.parts:
            if part is following:
                break
            if isinstance(part, str) and (not part.startswith("#") or part.startswith("#pragma")):
                yield part


def _list_namespaces(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the named namespaces that a text opens, each with those around it."""
    around: list[tuple[str, ...]] = []
    for piece in list_declared(text):
        if piece.endswith(" {"):
            named = _NAMED.fullmatch(piece)
            names = named[1].split() if named else ()
            around.append(tuple(word for word in names if word not in (":", "inline")))
            if named:
                yield tuple(word for words in around for word in words)
        elif piece == "}":
            around.pop()


def _open(space: Sequence[str]) -> str:
    return "".join(f"namespace {word} {{ " for word in space)
