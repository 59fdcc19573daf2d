"""Lists the variants that are to be evaluated: files, what folders hold, lines of a list.

Names are the user's, and may hold anything that a path may. Nothing here reads a variant, but for the digest
of what make built in a project.
"""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerncap_stages.errors import Refused, UsageError
from kerncap_stages.project.built import require_current

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kerncap_stages.replay.variant_shape import VariantShape

CODE_SUFFIXES = (".hsaco", ".co", ".cubin", ".ptx", ".fatbin")
SOURCE_SUFFIXES = (".hip", ".cu", ".cpp", ".s")
_MAX_SHOWN = 200
_MAX_PATH_BYTES = 4095  # Linux opens no longer one
_MEMBERS = ("name", "path", "flags")


@dataclass(frozen=True)
class Candidate:
    """A variant that the user named.

    flags: for the compiler, beside those that the project records; of a code object there are none.
    problem: why it is refused, if that is known: a line of a list that names no variant.
    build: makes the code object, instead of reading ``path``, and says how it is launched. Called in a
    thread. It may raise NotBuiltError, BuildStoppedError, or UsageError if the variant is refused.
    """

    name: str
    path: Path
    flags: tuple[str, ...] = ()
    problem: str | None = None
    build: Callable[[], tuple[bytes, VariantShape | None]] | None = None

    @property
    def is_source(self) -> bool:
        """Whether it has to be compiled first."""
        return self.build is None and self.path.suffix in SOURCE_SUFFIXES


def list_candidates(paths: Iterable[str], flags: Sequence[str] = ()) -> Iterator[Candidate]:
    """Yield the variant of each path, and all variants in each folder, in the order of their names.

    A link that leads nowhere, or a pipe, is one that cannot be read, as in a list.

    Raises UsageError for a path that does not exist, and for a folder without variants.
    """
    for text in paths:
        path = Path(text)
        if path.is_dir():
            yield from _list_folder(path, flags)
        elif path.exists():
            yield _add_flags(Candidate(text, path), flags)
        else:
            raise UsageError(f"no such file or folder: {text}", hint="name code objects, sources or folders")


def _list_folder(folder: Path, flags: Sequence[str]) -> Iterator[Candidate]:
    files = [
        each
        for each in sorted(folder.iterdir())
        if each.suffix in (*CODE_SUFFIXES, *SOURCE_SUFFIXES) and not each.is_dir()
    ]
    if not files:
        raise UsageError(
            f"{folder} holds no variant",
            hint="variants end in " + " ".join((*CODE_SUFFIXES, *SOURCE_SUFFIXES)),
        )
    for each in files:
        yield _add_flags(Candidate(str(each), each, problem=_explain_stale(folder, each)), flags)


def _explain_stale(folder: Path, variant: Path) -> str | None:
    """Explain that make built a code object of a project from other sources; named alone, it is judged."""
    try:
        require_current(folder, variant)
    except Refused as error:
        return str(error)
    return None


def read_line(line: str, flags: Sequence[str] = ()) -> Candidate | None:
    """Read a line of a list: a path, or a JSON object with ``path``, ``name`` and ``flags``.

    None for an empty line. A path that holds a line feed, ends in a carriage return, or begins with `{`,
    needs JSON. Anything else gives a candidate with a problem. Whether the file exists is seen when it is
    read.
    """
    text = line.rstrip("\n") if not line.endswith("\r\n") else line[:-2]
    if not text.strip():
        return None
    try:
        named = _read_object(json.loads(text)) if text.startswith("{") else Candidate(text, _make_path(text))
        return _add_flags(named, flags)
    except (ValueError, RecursionError) as error:
        wanted = 'a line is a path or {"path": "a.hip", "name": "a", "flags": ["-DN=4"]}'
        return Candidate(text[:_MAX_SHOWN], Path(), problem=f"not a variant: {error}; {wanted}")
    except UsageError as error:
        return Candidate(text[:_MAX_SHOWN], Path(), problem=str(error))


def _make_path(text: str) -> Path:
    if not text or "\0" in text or len(os.fsencode(text)) > _MAX_PATH_BYTES:
        raise ValueError("no system has such a path")
    return Path(text)


def _read_object(members: Any) -> Candidate:
    if not isinstance(members, dict) or not set(members) <= set(_MEMBERS):
        raise ValueError(f"expected an object with {', '.join(_MEMBERS)}")
    path, name, flags = members.get("path"), members.get("name"), members.get("flags", [])
    if not isinstance(path, str):
        raise ValueError("path is missing")
    if name is not None and not isinstance(name, str):
        raise ValueError("name is not a text")
    if isinstance(flags, str):
        flags = shlex.split(flags)
    if not isinstance(flags, list) or not all(isinstance(each, str) for each in flags):
        raise ValueError("flags is neither a text nor a list of texts")
    for text in (name or "", *flags):
        os.fsencode(text)  # JSON may hold what no system's text does
    return Candidate(path if name is None else name, _make_path(path), tuple(flags))


def _add_flags(candidate: Candidate, flags: Sequence[str]) -> Candidate:
    """Add the flags that all sources get, before its own: a later flag overrides an earlier one."""
    if not candidate.is_source:
        if candidate.flags:
            raise UsageError(f"{candidate.name} is a code object, which no flags compile")
        return candidate
    return replace(candidate, flags=(*flags, *candidate.flags))
