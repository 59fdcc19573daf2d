"""Searches source trees for a kernel's definition, and records every file that the result depends on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerncap_stages.compilers.consulted import SOURCE_SUFFIXES
from kerncap_stages.locate.definitions import Definition, find_definitions
from kerncap_stages.locate.macros import collect_macros, find_pasting_macros
from kerncap_stages.locate.options import is_source_file, list_folders
from kerncap_stages.locate.units import read_system_headers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from kerncap_stages.code.kernel_names import KernelName
    from kerncap_stages.compilers.compile_commands import CompileCommand
    from kerncap_stages.compilers.consulted import Consulted
    from kerncap_stages.compilers.line_tables import LineTables
    from kerncap_stages.locate.wanted import Wanted

_LINE_END = b"\n"
_MAX_HINTS = 3


def find_candidates(roots: Sequence[Path], name: KernelName, consulted: Consulted) -> list[Definition]:
    """Find the definitions below ``roots`` that match the kernel's name best."""
    texts = dict(_read_texts(roots, consulted))
    return _find_definitions(texts, name, texts)


def find_named_candidates(roots: Sequence[Path], name: KernelName, consulted: Consulted) -> list[Definition]:
    """Find definitions in what the user named: in its files if they have any, else in its folders, too.

    The folder of a file is read for macros.
    """
    files = [root for root in roots if is_source_file(root)]
    if files:
        texts = dict(_read_texts((*files, *list_folders(files)), consulted))
        found = _find_definitions(texts, name, {file.resolve() for file in files})
        if found:
            return found
    return find_candidates(roots, name, consulted)


def _find_definitions(
    texts: Mapping[Path, bytes], name: KernelName, paths: Collection[Path]
) -> list[Definition]:
    """Find the best definitions in some of the files; the macros are those of all."""
    macros = collect_macros(texts.values())
    found = [
        definition
        for path, text in texts.items()
        if path in paths
        for definition in find_definitions(path, text, name.base, macros)
    ]
    return choose_best_matches(found, name)


def find_in_system(
    commands: Sequence[CompileCommand], name: KernelName, wanted: Wanted, consulted: Consulted
) -> list[Definition]:
    """Find definitions in headers that units include from the toolchain's folders: installed libraries."""
    headers = {path for _, read in read_system_headers(commands, wanted, consulted) for path in read}
    is_named = any(name.base.encode() in _read_text(path) for path in headers if _is_source(path))
    return find_candidates(sorted(headers), name, consulted) if is_named else []


def _read_text(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _read_texts(roots: Sequence[Path], consulted: Consulted) -> Iterator[tuple[Path, bytes]]:
    for root in roots:
        paths = [root] if root.is_file() else consulted.list_sources(root)
        for path in dict.fromkeys(path.resolve() for path in paths):  # compile commands have resolved paths
            text = consulted.read(path) if _is_source(path) else None
            if text is not None:
                yield path, text


def _is_source(path: Path) -> bool:
    """Whether a file's suffix is that of C++ source: Triton's line tables name Python files."""
    return path.suffix.lower() in SOURCE_SUFFIXES


def choose_best_matches(found: Sequence[Definition], name: KernelName) -> list[Definition]:
    """Keep the definitions that match the name best: by scopes, then by being a template, then by arity."""

    def rate_agreement(definition: Definition) -> tuple[bool, bool, bool, bool]:
        arity = not name.parameters or len(definition.parameters) == len(name.parameters)
        written = definition.macro is None
        return definition.scopes == name.scopes, definition.is_template == name.is_template, arity, written

    best = max((rate_agreement(definition) for definition in found), default=None)
    return [definition for definition in found if rate_agreement(definition) == best]


def find_by_line_tables(
    tables: LineTables,
    roots: Sequence[Path],
    name: KernelName,
    consulted: Consulted,
    *,
    guessed: bool = False,
) -> Definition | None:
    """Return the definition that the code object names, if its file still defines the kernel there.

    guessed: whether the roots are guesses, not folders that the user named.
    """
    if tables.definition is None:
        return None
    path, line = tables.definition
    for place in _list_places(path, roots, consulted, guessed=guessed):
        text = consulted.read(place) if _is_source(place) else None
        if text is None:
            continue
        found = find_definitions(place, text, name.base, collect_macros([text]))
        near = [
            definition
            for definition in found
            if definition.line <= line + 1 and definition.last_line + 1 >= line
        ]
        if near:  # prefer the one that contains the line
            return min(near, key=lambda each: not each.line <= line <= each.last_line)
        if found:
            matches = choose_best_matches(found, name)
            return matches[0] if len(matches) == 1 else None
    return None


def find_told_line(
    tables: LineTables, roots: Sequence[Path], consulted: Consulted, *, guessed: bool = False
) -> Definition | None:
    """Return the line that the code object names, though no definition is recognised there.

    A macro may make the kernel.
    """
    if tables.definition is None:
        return None
    path, line = tables.definition
    # Prefer the recorded path over a file that only shares its name: no definition shows that it is the same
    # file.
    places = _list_places(path, roots, consulted, guessed=guessed)
    for place in sorted(places, key=lambda each: not is_in_same_folder(each, path)):
        text = consulted.read(place) if _is_source(place) else None
        if text is not None and line <= text.count(b"\n") + 1:
            return Definition(place, line, line, (), is_template=False)
    return None


def find_told_place(path: Path, roots: Sequence[Path], consulted: Consulted) -> Path | None:
    """Find a file that a code object names: at its path, or below ``roots`` in a folder of the same name."""
    if consulted.exists(path):
        return path
    moved = _find_moved(path, roots, consulted)
    return next((place for place in moved if is_in_same_folder(place, path)), None)


def is_in_same_folder(path: Path, other: Path) -> bool:
    """Whether two paths have the same file name and the same folder name."""
    return path.parts[-2:] == other.parts[-2:]


def collect_hints(roots: Sequence[Path], base: str, consulted: Consulted) -> str | None:
    """Say where an unrecognised kernel may be: the places of its name, or macros that may make it."""
    texts = dict(_read_texts(roots, consulted))
    word = re.compile(rb"\b" + re.escape(base.encode()) + rb"\b")
    found = {path: match.start() for path, text in texts.items() if (match := word.search(text))}
    places = [f"{path}:{texts[path].count(_LINE_END, 0, at) + 1}" for path, at in found.items()]
    if places:
        return "the kernel's name occurs at " + ", ".join(places[:_MAX_HINTS])
    macros = [
        name.decode(errors="replace") for name in find_pasting_macros(base, collect_macros(texts.values()))
    ]
    return f"macros there could make it ({', '.join(macros[:_MAX_HINTS])})" if macros else None


def _list_places(path: Path, roots: Sequence[Path], consulted: Consulted, *, guessed: bool) -> list[Path]:
    """List the places of a file that a code object names, first those below folders that the user named."""
    moved = _find_moved(path, roots, consulted)
    is_below = any(place.is_relative_to(root) for place in (path, path.resolve()) for root in roots)
    return [path, *moved] if guessed or is_below else [*moved, path]


def _find_moved(path: Path, roots: Sequence[Path], consulted: Consulted) -> list[Path]:
    """Find a file of another tree below ``roots``, by the longest trailing part of its path."""
    for start in range(1, len(path.parts)):
        places = [root.joinpath(*path.parts[start:]) for root in roots if root.is_dir()]
        places += [root for root in roots if root.is_file() and root.parts[-1:] == path.parts[start:]]
        existing = [place for place in places if place.is_file()]
        if existing:
            return existing
        for place in places:
            consulted.note_absent_file(place)
    return []
