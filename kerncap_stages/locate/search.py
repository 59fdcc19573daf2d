"""Searching source trees for a kernel's definition, remembering every file that the answer depends on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerncap_stages.compilers.consulted import SOURCE_SUFFIXES
from kerncap_stages.locate.definitions import Definition, find_definitions
from kerncap_stages.locate.macros import collect_macros, may_paste
from kerncap_stages.locate.units import system_headers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kerncap_stages.code.kernel_names import KernelName
    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.consulted import Consulted
    from kerncap_stages.compilers.line_tables import LineTables
    from kerncap_stages.locate.wanted import Wanted

_TRITON_KERNEL = re.compile(
    rb"^[ \t]*@(?!cuda\.|numba\.)[\w.]*\bjit\b[^\n]*\n(?:[ \t]*@[^\n]*\n|[ \t]*\n)*[ \t]*def[ \t]+(\w+)",
    re.MULTILINE,
)
_LINE_END = b"\n"
_MOST_HINTS = 3


def find_candidates(roots: Sequence[Path], name: KernelName, consulted: Consulted) -> list[Definition]:
    """Every definition below ``roots`` that may be the kernel, the best matches only."""
    texts = dict(_texts(roots, consulted))
    macros = collect_macros(texts.values())
    found = [
        definition
        for path, text in texts.items()
        for definition in find_definitions(path, text, name.base, macros)
    ]
    return best_matches(found, name)


def find_in_system(
    commands: Sequence[CompileCommand], name: KernelName, wanted: Wanted, consulted: Consulted
) -> list[Definition]:
    """The same in headers that units take from the toolchain's folders, where libraries are installed."""
    headers = {path for _, read in system_headers(commands, wanted, consulted) for path in read}
    is_named = any(name.base.encode() in _text_of(path) for path in headers if _is_source(path))
    return find_candidates(sorted(headers), name, consulted) if is_named else []


def _text_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _texts(roots: Sequence[Path], consulted: Consulted) -> Iterator[tuple[Path, bytes]]:
    for root in roots:
        paths = [root] if root.is_file() else consulted.sources(root)
        for path in dict.fromkeys(path.resolve() for path in paths):  # as compile commands name them
            text = consulted.read(path) if _is_source(path) else None
            if text is not None:
                yield path, text


def _is_source(path: Path) -> bool:
    """Whether a compiler reads a file of such a name: Triton's line numbers are of Python."""
    return path.suffix.lower() in SOURCE_SUFFIXES


def best_matches(found: Sequence[Definition], name: KernelName) -> list[Definition]:
    """Keep the definitions that agree best with the name: scopes first, then being a template, then arity."""

    def agreement(definition: Definition) -> tuple[bool, bool, bool, bool]:
        arity = not name.parameters or len(definition.parameters) == len(name.parameters)
        written = definition.macro is None
        return definition.scopes == name.scopes, definition.is_template == name.is_template, arity, written

    best = max((agreement(definition) for definition in found), default=None)
    return [definition for definition in found if agreement(definition) == best]


def from_line_tables(
    tables: LineTables,
    roots: Sequence[Path],
    name: KernelName,
    consulted: Consulted,
    *,
    guessed: bool = False,
) -> Definition | None:
    """The definition that the code object itself names, if that file is at hand and still has it there.

    guessed: the roots are not the user's word.
    """
    if tables.definition is None:
        return None
    path, line = tables.definition
    for place in _places(path, roots, consulted, guessed=guessed):
        text = consulted.read(place) if _is_source(place) else None
        if text is None:
            continue
        found = find_definitions(place, text, name.base, collect_macros([text]))
        near = [
            definition
            for definition in found
            if definition.line <= line + 1 and definition.last_line + 1 >= line
        ]
        if near:  # of neighbours, the one that holds the line
            return min(near, key=lambda each: not each.line <= line <= each.last_line)
        if found:
            matches = best_matches(found, name)
            return matches[0] if len(matches) == 1 else None
    return None


def line_told(
    tables: LineTables, roots: Sequence[Path], consulted: Consulted, *, guessed: bool = False
) -> Definition | None:
    """The line that the code object names, where nothing is recognised there: a macro may make the kernel."""
    if tables.definition is None:
        return None
    path, line = tables.definition
    # No definition shows that it is the same file: the old place goes before one that has but its name.
    places = _places(path, roots, consulted, guessed=guessed)
    for place in sorted(places, key=lambda each: not in_same_folder(each, path)):
        text = consulted.read(place) if _is_source(place) else None
        if text is not None and line <= text.count(b"\n") + 1:
            return Definition(place, line, line, (), is_template=False)
    return None


def place_told(path: Path, roots: Sequence[Path], consulted: Consulted) -> Path | None:
    """Where a file that a code object names is: there, or below ``roots`` in a folder of the same name."""
    if consulted.exists(path):
        return path
    moved = _moved_below(path, roots, consulted)
    return next((place for place in moved if in_same_folder(place, path)), None)


def in_same_folder(path: Path, other: Path) -> bool:
    """Whether their names are the same, and those of their folders."""
    return path.parts[-2:] == other.parts[-2:]


def hints(roots: Sequence[Path], base: str, consulted: Consulted) -> str | None:
    """Where a kernel may be that is not recognised: the places of its name, or macros that may make it."""
    texts = dict(_texts(roots, consulted))
    word = re.compile(rb"\b" + re.escape(base.encode()) + rb"\b")
    found = {path: match.start() for path, text in texts.items() if (match := word.search(text))}
    places = [f"{path}:{texts[path].count(_LINE_END, 0, at) + 1}" for path, at in found.items()]
    if places:
        return "its name stands at " + ", ".join(places[:_MOST_HINTS])
    macros = [name.decode(errors="replace") for name in may_paste(base, collect_macros(texts.values()))]
    return f"macros there make kernels of such names ({', '.join(macros[:_MOST_HINTS])})" if macros else None


def _places(path: Path, roots: Sequence[Path], consulted: Consulted, *, guessed: bool) -> list[Path]:
    """Where the file that a code object names may be: of two checkouts, the one that the user names."""
    moved = _moved_below(path, roots, consulted)
    is_below = any(place.is_relative_to(root) for place in (path, path.resolve()) for root in roots)
    return [path, *moved] if guessed or is_below else [*moved, path]


def _moved_below(path: Path, roots: Sequence[Path], consulted: Consulted) -> list[Path]:
    """Where a file of another tree may be in ours: by its longest trailing part."""
    for start in range(1, len(path.parts)):
        places = [root.joinpath(*path.parts[start:]) for root in roots if root.is_dir()]
        existing = [place for place in places if place.is_file()]
        if existing:
            return existing
        for place in places:
            consulted.missed(place)
    return []


def is_triton_kernel(roots: Sequence[Path], base: str, consulted: Consulted) -> bool:
    """Whether a Python file below ``roots`` defines a jitted function of the kernel's name.

    Triton may append a specialisation suffix to a function's name.
    """
    for root in roots:
        for path in consulted.sources(root) if root.is_dir() else ():
            text = consulted.read(path) if path.suffix == ".py" else None
            for match in _TRITON_KERNEL.finditer(text or b""):
                function = match[1].decode()
                if base == function or base.startswith(function + "_0d"):
                    return True
    return False
