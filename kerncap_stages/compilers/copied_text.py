"""Writes the end of a header that instantiates the templates which a kernel uses of other headers.

It is a copy of the edited files, in a namespace of its own, in which all names of the original namespaces are
found. There the kernel is instantiated.
kc-locate uses this file, and projects have a copy of it: it needs Python alone, and files beside it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerncap_stages.compilers.declared_script import UnreadableError, list_declared
from kerncap_stages.compilers.header_text import UNWRITABLE, list_own_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from kerncap_stages.compilers.inclusions import Included

    _Preprocess = Callable[..., Included | None]
# A copy of a kernel would be compiled with the unit. As a function that nobody calls it is not.
_NO_KERNELS = """#undef __global__
#define __global__ __device__
#undef __launch_bounds__
#define __launch_bounds__(...)
"""
_OWN_NAMESPACE = "kerncap_copy"
_NAMED = re.compile(r"(?:inline )?namespace (\w+(?: : : (?:inline )?\w+)*) \{")


def copy_edited(
    text: str, preprocess: _Preprocess, edited: Collection[Path], kernel: str, folder: Path
) -> str | None:
    """Copy what the unit has besides a header, up to the last edited file, and instantiate the kernel there.

    text: of the header. preprocess: reads the unit with more flags. kernel: its name, with its arguments.
    None if the preprocessor fails, or if the copy is empty, has braces that do not pair up, or has characters
    that cannot be written.
    """
    header = folder / "no_kernels.hpp"
    header.write_text(text + _NO_KERNELS, encoding="utf-8")
    root = preprocess("-include", str(header))
    copied = "\n".join(_list_copied(root, header, edited)) if root is not None else ""
    if not copied or (not copied.isascii() and UNWRITABLE.search(copied)):
        return None
    try:
        spaces = list(dict.fromkeys(_list_namespaces(copied)))
    except UnreadableError:
        return None
    is_template = kernel.startswith("void ")  # names of other functions have no type
    return "\n".join(
        (
            *(f"{_open(space)}{'}' * len(space)}" for space in spaces),
            f"namespace {{ namespace {_OWN_NAMESPACE} {{",
            *(f"{_open(space)}using namespace ::{'::'.join(space)};{'}' * len(space)}" for space in spaces),
            copied,
            f"template __attribute__((device)) {kernel};" if is_template else "",
            "} }",
            "",
        )
    )


def _list_copied(root: Included, header: Path, edited: Collection[Path]) -> list[str]:
    """List the lines that are copied, without directives but pragmas."""
    lines: list[str] = []
    end = 0
    wanted = {id(file) for file in root.list_files() if file.path.resolve() in edited}
    for file, line in list_own_lines(root, header):
        if line.startswith("#") and not line.startswith("#pragma"):
            continue
        lines.append(line)
        if id(file) in wanted:
            end = len(lines)
    return lines[:end]


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
