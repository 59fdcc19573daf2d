"""Lists names that a file finds only if headers that follow it are precompiled, and so read before it.

A project has a copy of this file: it needs Python alone, and files beside it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerncap_stages.compilers.declared_script import UnreadableError, list_declared

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from kerncap_stages.compilers.inclusions import Included

_MACRO = re.compile(r"#\s*(?:define|undef)\s+(\w+)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_USING = re.compile(r"(?:inline )?using namespace\b")
_ENUMERATORS = re.compile(r"\benum\b[^;{}]*\{([^}]*)\}")  # they are names of the scope around
# Parameters, arguments and bodies, from the inside to the outside.
_INNER = re.compile(r"\([^()]*\)|<[^<>]*>|\{[^{}]*\}|\[[^][]*\]")
_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """
        alignas alignof and asm auto bool break case catch char char16_t char32_t char8_t class concept
        const const_cast consteval constexpr constinit continue decltype default delete do double
        dynamic_cast else enum explicit export extern false final float for friend goto if inline int long
        mutable namespace new noexcept not nullptr operator or override private protected public register
        reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch
        template this thread_local throw true try typedef typeid typename union unsigned using virtual void
        volatile wchar_t while
        """,
    )
)


class UnknownNamesError(Exception):
    """A header makes all names of another namespace visible: which ones these are is not known here."""


def list_names(text: str) -> set[str]:
    """Return all identifiers of a text, except keywords and the compiler's built-in functions."""
    found = set(_NAME.findall(_NO_CODE.sub(" ", text))) - _KEYWORDS
    return {name for name in found if not name.startswith("__builtin_")}


def list_later_names(root: Included, path: Path, apart: Collection[Path]) -> set[str]:
    """Return the names that headers declare which a unit reads after the first text of the file at ``path``.

    apart: files that are not precompiled themselves. Only their macros count, wherever they are defined.
    Raises UnknownNamesError.
    """
    found: set[str] = set()
    later = {id(file) for file in _list_later(root, path)}
    for file in root.list_files():
        own = [part for part in file.parts if isinstance(part, str)]
        is_apart = file.path.resolve() in apart
        if is_apart or id(file) in later:
            found.update(match[1] for match in map(_MACRO.match, own) if match)
        if id(file) in later and not is_apart:
            found.update(_list_declared_names([line for line in own if not line.startswith("#")]))
    return found


def _list_later(root: Included, path: Path) -> Sequence[Included]:
    later: list[Included] = []
    passed = False

    def walk(file: Included) -> None:
        nonlocal passed
        is_wanted = not passed and file.path.resolve() == path
        for part in file.parts:
            if not isinstance(part, str):
                if passed:
                    later.append(part)
                walk(part)
            elif is_wanted and not part.startswith("#"):
                passed = True
        passed = passed or is_wanted

    walk(root)
    return later


def _list_declared_names(lines: Sequence[str]) -> Iterator[str]:
    text = "\n".join(lines)
    for body in _ENUMERATORS.findall(text):
        yield from list_names(body)
    try:
        pieces = list(list_declared(text))
    except UnreadableError:
        pieces = [text]
    for piece in pieces:
        if _USING.match(piece):
            raise UnknownNamesError
        before, rest = "", piece
        while before != rest:
            before, rest = rest, _INNER.sub(" ", rest)
        yield from list_names(rest)
