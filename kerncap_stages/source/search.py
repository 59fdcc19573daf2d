"""Searching source trees for a kernel's definition, remembering every file that the answer depends on."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kerncap_stages.source.definitions import (
    SOURCE_SUFFIXES,
    Definition,
    collect_macros,
    find_definitions,
    source_files,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.source.kernel_names import KernelName
    from kerncap_stages.source.line_tables import LineTables

_TRITON_KERNEL = re.compile(
    rb"^[ \t]*@[\w.]*\bjit\b[^\n]*\n(?:[ \t]*@[^\n]*\n|[ \t]*\n)*[ \t]*def[ \t]+(\w+)", re.MULTILINE
)
_MAX_FILE_BYTES = 16 << 20  # a larger file is data, not source


@dataclass
class Consulted:
    """Digests of what was read; None for what was absent; of a folder, that of the list of its sources."""

    digests: dict[Path, str | None] = field(default_factory=dict)

    def read(self, path: Path) -> bytes | None:
        """The bytes of a file, or None if it cannot be read."""
        try:
            if path.stat().st_size > _MAX_FILE_BYTES:
                self.digests[path] = _stamp(path)
                return None
            text = path.read_bytes()
        except OSError:
            self.digests[path] = None
            return None
        self.digests[path] = hashlib.sha256(text).hexdigest()
        return text

    def exists(self, path: Path) -> bool:
        """Whether a file is there; its absence is remembered."""
        self.read(path)
        return self.digests[path] is not None

    def missed(self, path: Path) -> None:
        """Remember that a file was looked for and is not there."""
        self.digests.setdefault(path, None)

    def sources(self, folder: Path) -> list[Path]:
        """The source files below a folder, Python's too: a new file is a change."""
        paths = list(source_files(folder))
        self.digests[folder] = listing_digest(paths)
        return paths


def listing_digest(paths: Sequence[Path]) -> str:
    """A digest of names, not of contents."""
    return hashlib.sha256(
        b"\0".join(str(path).encode(errors="surrogateescape") for path in paths)
    ).hexdigest()


def is_unchanged(path: Path, digest: str | None) -> bool:
    """Whether a consulted file or folder still is what it was."""
    if digest is None:
        return not path.exists()
    try:
        if path.is_dir():
            return listing_digest(list(source_files(path))) == digest
        if path.stat().st_size > _MAX_FILE_BYTES:
            return _stamp(path) == digest
        return hashlib.sha256(path.read_bytes()).hexdigest() == digest
    except OSError:
        return False


def _stamp(path: Path) -> str:
    """Stands for the contents of a file that is too large to be read each time."""
    status = path.stat()
    return hashlib.sha256(f"{status.st_size} {status.st_mtime_ns}".encode()).hexdigest()


def find_candidates(roots: Sequence[Path], name: KernelName, consulted: Consulted) -> list[Definition]:
    """Every definition below ``roots`` that may be the kernel, the best matches only."""
    texts: dict[Path, bytes] = {}
    for root in roots:
        paths = [root] if root.is_file() else consulted.sources(root)
        for path in paths:
            text = consulted.read(path) if path.suffix.lower() in SOURCE_SUFFIXES else None
            if text is not None:
                texts.setdefault(path, text)
    macros = collect_macros(texts.values())
    found = [
        definition
        for path, text in texts.items()
        for definition in find_definitions(path, text, name.base, macros)
    ]
    return best_matches(found, name)


def best_matches(found: Sequence[Definition], name: KernelName) -> list[Definition]:
    """Keep the definitions that agree best with the name: scopes first, then being a template, then arity."""

    def agreement(definition: Definition) -> tuple[bool, bool, bool, bool]:
        arity = not name.parameters or len(definition.parameters) == len(name.parameters)
        written = definition.macro is None
        return definition.scopes == name.scopes, definition.is_template == name.is_template, arity, written

    best = max((agreement(definition) for definition in found), default=None)
    return [definition for definition in found if agreement(definition) == best]


def from_line_tables(
    tables: LineTables, roots: Sequence[Path], name: KernelName, consulted: Consulted
) -> Definition | None:
    """The definition that the code object itself names, if that file is at hand and still has it there."""
    if tables.definition is None:
        return None
    path, line = tables.definition
    for place in (path, *moved_below(path, roots)):
        text = consulted.read(place)
        if text is None:
            continue
        found = find_definitions(place, text, name.base, collect_macros([text]))
        near = [
            definition
            for definition in found
            if definition.line <= line + 1 and definition.last_line + 1 >= line
        ]
        if near:
            return near[0]
        if found:
            matches = best_matches(found, name)
            return matches[0] if len(matches) == 1 else None
    return None


def moved_below(path: Path, roots: Sequence[Path]) -> list[Path]:
    """Where a file of another machine's tree may be in ours: by its longest trailing part."""
    for start in range(1, len(path.parts)):
        places = [root.joinpath(*path.parts[start:]) for root in roots if root.is_dir()]
        existing = [place for place in places if place.is_file()]
        if existing:
            return existing
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
