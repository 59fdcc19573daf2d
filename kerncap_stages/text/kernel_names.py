"""Kernel names in the room that there is: what is long and tells little goes first."""

from __future__ import annotations

ELLIPSIS = "…"
_FEWEST = 3  # letters of template arguments that are worth showing on each side of an ellipsis


def shorten(name: str, width: int) -> str:
    """A demangled name in at most ``width`` characters.

    What goes, as far as it has to: the return type, the parameters, the middle of the template arguments, the
    namespaces, and in the end the middle of what is left.
    """
    if len(name) <= width:
        return name
    name = _without_return_type(_without_parameters(name))
    if len(name) <= width:
        return name
    shorter = _with_fewer_arguments(name, width)
    while len(shorter) > width:
        scope = _first_scope(name)
        if scope == 0:
            return _cut(shorter, width)
        name = name[scope:]
        shorter = _with_fewer_arguments(name, width)
    return shorter


def _outermost(name: str) -> tuple[int, int] | None:
    """Where the last template argument list of the outermost level begins and ends, brackets included."""
    depth, begin, found = 0, 0, None
    for place, letter in enumerate(name):
        if letter in "<({[":
            if depth == 0 and letter == "<":
                begin = place
            depth += 1
        elif letter in ">)}]" and name[place - 1 : place + 1] != "->":
            depth -= 1
            if depth == 0 and letter == ">":
                found = (begin, place + 1)
    return found if depth == 0 else None


def _without_parameters(name: str) -> str:
    """``f<int>(float*, int)`` as ``f<int>``; ``(anonymous namespace)::f`` stays."""
    plain = name.removesuffix(" const").removesuffix(" [clone .kd]")
    if not plain.endswith(")"):
        return plain
    depth = 0
    for place in range(len(plain) - 1, -1, -1):
        depth += (plain[place] == ")") - (plain[place] == "(")
        if depth == 0:
            return plain[:place] or plain
    return plain


def _without_return_type(name: str) -> str:
    """``void f<int>`` as ``f<int>``: a blank outside of all brackets ends a return type."""
    depth, start = 0, 0
    for place, letter in enumerate(name):
        if letter in "<({[":
            depth += 1
        elif letter in ">)}]" and name[place - 1 : place + 1] != "->":
            depth -= 1
        elif letter == " " and depth == 0 and not name[:place].endswith("operator"):
            start = place + 1
    return name[start:] or name


def _with_fewer_arguments(name: str, width: int) -> str:
    """The middle of the template arguments replaced by an ellipsis, as much of it as has to go."""
    brackets = _outermost(name)
    if len(name) <= width or brackets is None:
        return name
    begin, end = brackets
    arguments = name[begin + 1 : end - 1]
    room = width - (len(name) - len(arguments)) - len(ELLIPSIS)
    if room < 2 * _FEWEST:
        return name[: begin + 1] + ELLIPSIS + name[end - 1 :]
    head = (room + 1) // 2
    return (
        name[: begin + 1]
        + arguments[:head]
        + ELLIPSIS
        + arguments[len(arguments) - room // 2 :]
        + name[end - 1 :]
    )


def _first_scope(name: str) -> int:
    """Length of the leading ``namespace::``, 0 if there is none outside of brackets."""
    depth = 0
    for place, letter in enumerate(name):
        if letter in "<({[":
            depth += 1
        elif letter in ">)}]":
            depth -= 1
        elif depth == 0 and name.startswith("::", place):
            return place + 2
    return 0


def _cut(name: str, width: int) -> str:
    head = width // 2
    return name[:head] + ELLIPSIS + name[len(name) - (width - head - 1) :] if width > 1 else ELLIPSIS
