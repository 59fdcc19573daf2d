"""Finds a project's macros that stand for ``__global__``, and those that make whole kernels.

This is not a preprocessor: conditions are not evaluated, and of several definitions of a macro the last one
is used. Macros that make kernels are expanded, to see which use makes the wanted kernel.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_IDENTIFIER = re.compile(rb"[A-Za-z_]\w*")
_DEFINE = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)\n]*\))?((?:[^\n\\]|\\\n|\\.)*)", re.MULTILINE)
_CALLED = re.compile(rb"(\w+)\s*\(")
_PASTED = re.compile(rb"\w+(?:\s*##\s*\w+)+")
_PASTE = re.compile(rb"\s*##\s*")
_MAX_DEPTH = 8
_MAX_ARGUMENT_BYTES = 1 << 16
_OPENED = re.compile(rb"\s*\(")
_GAP = rb"(?:\s|//[^\n]*|/\*[\s\S]*?\*/)*"
# From a kernel's parameters to its body: attributes, macros and comments may stand between.
BODY = re.compile(_GAP + rb"(?:[A-Za-z_]\w*\b" + _GAP + rb"(?:\([^(){};]*\)" + _GAP + rb")?)*\{")
_OPEN = {b"(": b")", b"[": b"]", b"{": b"}"}


@dataclass(frozen=True)
class Generator:
    """A function-like macro that makes a kernel, by itself or through another macro."""

    parameters: tuple[bytes, ...]
    body: bytes

    @property
    def uses_a_parameter(self) -> bool:
        """Whether the body calls a parameter as a macro: ``#define LIST(X) X(a) X(b)``."""
        called = set(_CALLED.findall(self.body))
        return not called.isdisjoint(self.parameters)

    def expand(self, arguments: list[bytes]) -> bytes:
        """Return the body with the arguments in place of the parameters, and tokens pasted."""
        given = dict(zip(self.parameters, arguments, strict=False))
        if self.parameters[-1:] == (b"...",):
            given[b"__VA_ARGS__"] = b", ".join(arguments[len(self.parameters) - 1 :])
        text = _IDENTIFIER.sub(lambda match: given.get(match[0], match[0]), self.body.replace(b"\\\n", b" "))
        return _PASTE.sub(b"", text)


@dataclass(frozen=True)
class _Use:
    macro: bytes
    start: int  # offsets in the text
    end: int
    arguments: list[bytes]


@dataclass(frozen=True)
class Macros:
    """The macros of a source tree that mark, make or name kernels."""

    launch: frozenset[bytes]  # macros that stand for __global__ before a kernel
    generators: Mapping[bytes, Generator]  # macros that make kernels, by name
    pasting: Mapping[bytes, Generator] = field(default_factory=dict)  # macros that paste names together


def collect_macros(texts: Iterable[bytes]) -> Macros:
    """Collect the macros that expand to ``__global__``, directly or through other macros."""
    bodies: dict[bytes, Generator] = {}
    for text in texts:
        for match in _DEFINE.finditer(text):
            inside = (match[2] or b"()")[1:-1]
            parameters = tuple(each.strip() for each in inside.split(b",") if each.strip())
            bodies[match[1]] = Generator(parameters, match[3])
    marks = _find_leading_to({b"__global__"}, bodies)
    making = {name for name in marks if b"{" in bodies[name].body}
    making |= marks & _find_leading_to(making, bodies)
    # Macros that make only the head of a kernel: the body follows their use.
    heads = {name for name in marks - making if bodies[name].parameters}
    # Lists, which use a macro that they get as an argument.
    lists = {name for name, macro in bodies.items() if making and macro.uses_a_parameter}
    pasting = {name: macro for name, macro in bodies.items() if macro.parameters and b"##" in macro.body}
    generators = {name: bodies[name] for name in sorted(making | heads | lists)}
    return Macros(frozenset(marks - making), generators, pasting if generators else {})


def _find_leading_to(names: set[bytes], bodies: Mapping[bytes, Generator]) -> set[bytes]:
    """Find the macros whose body contains one of the names, directly or through other macros."""
    found: set[bytes] = set()
    while True:
        wanted = names | found
        more = {
            name for name, macro in bodies.items() if wanted & set(_IDENTIFIER.findall(macro.body))
        } - found
        if not more:
            return found
        found |= more


def find_uses_that_make(base: str, text: bytes, macros: Macros) -> Iterator[tuple[str, int]]:
    """Yield (macro, line) of each use in a file that makes a kernel named ``base``: ``DEFINE(scale)``."""
    marks = b"|".join(re.escape(mark) for mark in (b"__global__", *sorted(macros.launch)))
    declarator = re.escape(base.encode()) + rb"\s*(?:\(|$)"
    kernel = re.compile(rb"\b(?:" + marks + rb")\b[^;{}]*?\b" + declarator)
    for use in _find_uses(text, macros.generators):
        made = macros.generators[use.macro].expand(use.arguments)
        for each in _expand_all(made, macros, _MAX_DEPTH):
            named = _paste_names(each, macros)
            found = kernel.search(named)
            if found and (b"{" in named[found.end() :] or _has_body(text, use.end)):
                yield use.macro.decode(errors="replace"), text.count(b"\n", 0, use.start) + 1
                break


def _has_body(text: bytes, end: int) -> bool:
    """Whether a kernel's body follows a use that makes its head, with or without its parameters."""
    opened = _OPENED.match(text, end)
    after = _parse_arguments(text, opened.end()) if opened else ([], end)
    return after is not None and BODY.match(text, after[1]) is not None


def find_pasting_macros(base: str, macros: Macros) -> Iterator[bytes]:
    """Yield the macros that make kernels and paste names, one of which could be ``base``."""
    for name, generator in macros.generators.items():
        for pasted in _PASTED.findall(generator.body.replace(b"\\\n", b" ")):
            parts = [part for part in _PASTE.split(pasted) if part not in generator.parameters]
            if all(part in base.encode() for part in parts):
                yield name
                break


def _expand_all(text: bytes, macros: Macros, depth: int) -> Iterator[bytes]:
    """Yield a text, and the expansions of the macros in it."""
    yield text
    if depth:
        for use in _find_uses(text, macros.generators):
            yield from _expand_all(macros.generators[use.macro].expand(use.arguments), macros, depth - 1)


def _paste_names(text: bytes, macros: Macros) -> bytes:
    """Expand the macros in a text that paste names together: ``NAME(add, float)`` to ``k_add_float``."""
    for _ in range(_MAX_DEPTH):  # the kernel's name is among the first uses
        use = next(_find_uses(text, macros.pasting), None)
        if use is None:
            break
        text = text[: use.start] + macros.pasting[use.macro].expand(use.arguments) + text[use.end :]
    return text


def _find_uses(text: bytes, named: Mapping[bytes, Generator]) -> Iterator[_Use]:
    """Yield each use of these macros that is not in the definition of another macro."""
    called = set(_CALLED.findall(text)) if named else set()
    names = b"|".join(re.escape(name) for name in named if name in called)
    if not names:
        return
    defined = [match.span() for match in _DEFINE.finditer(text)]
    for match in re.finditer(rb"\b(" + names + rb")\s*\(", text):
        given = _parse_arguments(text, match.end())
        if given is not None and not any(low <= match.start() < high for low, high in defined):
            yield _Use(match[1], match.start(), given[1], given[0])


def _parse_arguments(text: bytes, start: int) -> tuple[list[bytes], int] | None:
    """Return the arguments of a use, and the offset after its closing parenthesis; None if there is none."""
    closing, found = [b")"], [b""]
    for at in range(start, min(len(text), start + _MAX_ARGUMENT_BYTES)):
        char = text[at : at + 1]
        if char == closing[-1]:
            closing.pop()
            if not closing:
                return [argument.strip() for argument in found], at + 1
        elif char in _OPEN:
            closing.append(_OPEN[char])
        if char == b"," and len(closing) == 1:
            found.append(b"")
        else:
            found[-1] += char
    return None
