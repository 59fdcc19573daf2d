"""Shortens kernel names to a given width. Long parts that say little are removed first."""

from __future__ import annotations

ELLIPSIS = "…"
_MIN_LETTERS = 3  # letters of template arguments that are worth showing on each side of an ellipsis


def shorten(name: str, width: int) -> str:
    """Shorten a demangled name to at most ``width`` characters.

    Parts are removed in this order until the name fits: the return type and the parameters, the middle of the
    template arguments, the namespaces from the outside in, the middle of the rest.
    """
    if len(name) <= width:
        return name
    name = _drop_return_type(_drop_parameters(name))
    if len(name) <= width:
        return name
    shorter = _shorten_arguments(name, width)
    while len(shorter) > width:
        scope = _measure_first_scope(name)
        if scope == 0:
            return _cut_middle(shorter, width)
        name = name[scope:]
        shorter = _shorten_arguments(name, width)
    return shorter


def _find_template_arguments(name: str) -> tuple[int, int] | None:
    """Return where the last outermost template argument list begins and ends, brackets included."""
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


def _drop_parameters(name: str) -> str:
    """Return ``f<int>`` for ``f<int>(float*, int)``; ``(anonymous namespace)::f`` stays as it is."""
    head, is_constrained, _ = name.partition(") requires ")  # a template's constraint follows the parameters
    plain = f"{head})" if is_constrained else name.removesuffix(" const").removesuffix(" [clone .kd]")
    if not plain.endswith(")"):
        return plain
    depth = 0
    for place in range(len(plain) - 1, -1, -1):
        depth += (plain[place] == ")") - (plain[place] == "(")
        if depth == 0:
            return plain[:place] or plain
    return plain


def _drop_return_type(name: str) -> str:
    """Return ``f<int>`` for ``void f<int>``: a blank outside of all brackets ends a return type."""
    depth, start = 0, 0
    for place, letter in enumerate(name):
        if letter in "<({[":
            depth += 1
        elif letter in ">)}]" and name[place - 1 : place + 1] != "->":
            depth -= 1
        elif letter == " " and depth == 0 and not name[:place].endswith("operator"):
            start = place + 1
    return name[start:] or name


def _shorten_arguments(name: str, width: int) -> str:
    """Replace the middle of the template arguments by an ellipsis, only as much as is needed to fit."""
    brackets = _find_template_arguments(name)
    if len(name) <= width or brackets is None:
        return name
    begin, end = brackets
    arguments = name[begin + 1 : end - 1]
    room = width - (len(name) - len(arguments)) - len(ELLIPSIS)
    if room < 2 * _MIN_LETTERS:
        return name[: begin + 1] + ELLIPSIS + name[end - 1 :]
    head = (room + 1) // 2
    return (
        name[: begin + 1]
        + arguments[:head]
        + ELLIPSIS
        + arguments[len(arguments) - room // 2 :]
        + name[end - 1 :]
    )


def _measure_first_scope(name: str) -> int:
    """Return the length of the leading ``namespace::``, or 0 if there is none outside of brackets."""
    depth = 0
    for place, letter in enumerate(name):
        if letter in "<({[":
            depth += 1
        elif letter in ">)}]":
            depth -= 1
        elif depth == 0 and name.startswith("::", place):
            return place + 2
    return 0


def _cut_middle(name: str, width: int) -> str:
    head = width // 2
    return name[:head] + ELLIPSIS + name[len(name) - (width - head - 1) :] if width > 1 else ELLIPSIS
