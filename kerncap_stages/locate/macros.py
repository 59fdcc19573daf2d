"""Project macros around kernels: those that stand for ``__global__``, and those that make whole kernels.

Not a preprocessor: conditions are not evaluated, and of several definitions of a macro the last one counts.
Macros that lead to a kernel are expanded, to see which use of one makes the kernel that is sought.
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
_DEEPEST = 8
_MOST_ARGUMENT_BYTES = 1 << 16
_OPENED = re.compile(rb"\s*\(")
_GAP = rb"(?:\s|//[^\n]*|/\*[\s\S]*?\*/)*"
# From a kernel's parameters to its body: attributes, macros and comments may stand between.
BODY = re.compile(_GAP + rb"(?:[A-Za-z_]\w*\b" + _GAP + rb"(?:\([^(){};]*\)" + _GAP + rb")?)*\{")
_OPEN = {b"(": b")", b"[": b"]", b"{": b"}"}


@dataclass(frozen=True)
class Generator:
    """A function-like macro that makes a kernel, itself or through another."""

    parameters: tuple[bytes, ...]
    body: bytes

    @property
    def uses_a_parameter(self) -> bool:
        """Whether a parameter stands for a macro: ``#define LIST(X) X(a) X(b)``."""
        called = set(_CALLED.findall(self.body))
        return not called.isdisjoint(self.parameters)

    def expand(self, arguments: list[bytes]) -> bytes:
        """The body with arguments in the place of parameters, and tokens pasted."""
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
    """The macros of a source tree that matter here."""

    launch: frozenset[bytes]  # stand for __global__ in front of a kernel
    generators: Mapping[bytes, Generator]  # by name
    pasting: Mapping[bytes, Generator] = field(default_factory=dict)  # make a name within another macro


def collect_macros(texts: Iterable[bytes]) -> Macros:
    """Macros that expand to ``__global__``, directly or through one another."""
    bodies: dict[bytes, Generator] = {}
    for text in texts:
        for match in _DEFINE.finditer(text):
            inside = (match[2] or b"()")[1:-1]
            parameters = tuple(each.strip() for each in inside.split(b",") if each.strip())
            bodies[match[1]] = Generator(parameters, match[3])
    marks = _leading_to({b"__global__"}, bodies)
    making = {name for name in marks if b"{" in bodies[name].body}
    making |= marks & _leading_to(making, bodies)
    # Those that take a kernel's name and end with it, or with its parameters: the body follows their use.
    heads = {name for name in marks - making if bodies[name].parameters}
    # And lists, which use whatever macro they are given.
    lists = {name for name, macro in bodies.items() if making and macro.uses_a_parameter}
    pasting = {name: macro for name, macro in bodies.items() if macro.parameters and b"##" in macro.body}
    generators = {name: bodies[name] for name in sorted(making | heads | lists)}
    return Macros(frozenset(marks - making), generators, pasting if generators else {})


def _leading_to(names: set[bytes], bodies: Mapping[bytes, Generator]) -> set[bytes]:
    """Macros whose body holds one of the names, or a macro that does."""
    found: set[bytes] = set()
    while True:
        wanted = names | found
        more = {
            name for name, macro in bodies.items() if wanted & set(_IDENTIFIER.findall(macro.body))
        } - found
        if not more:
            return found
        found |= more


def uses_that_make(base: str, text: bytes, macros: Macros) -> Iterator[tuple[str, int]]:
    """(macro, line) of each use in a file that makes a kernel of that name: ``DEFINE(scale)``."""
    marks = b"|".join(re.escape(mark) for mark in (b"__global__", *sorted(macros.launch)))
    declarator = re.escape(base.encode()) + rb"\s*(?:\(|$)"
    kernel = re.compile(rb"\b(?:" + marks + rb")\b[^;{}]*?\b" + declarator)
    for use in _uses(text, macros.generators):
        made = macros.generators[use.macro].expand(use.arguments)
        for each in _expansions(made, macros, _DEEPEST):
            named = _with_names(each, macros)
            found = kernel.search(named)
            if found and (b"{" in named[found.end() :] or _has_body(text, use.end)):
                yield use.macro.decode(errors="replace"), text.count(b"\n", 0, use.start) + 1
                break


def _has_body(text: bytes, end: int) -> bool:
    """Whether a kernel's body follows a use that makes its head, and maybe its parameters."""
    opened = _OPENED.match(text, end)
    after = _arguments(text, opened.end()) if opened else ([], end)
    return after is not None and BODY.match(text, after[1]) is not None


def may_paste(base: str, macros: Macros) -> Iterator[bytes]:
    """Macros that make kernels and paste names together of which ``base`` could be one."""
    for name, generator in macros.generators.items():
        for pasted in _PASTED.findall(generator.body.replace(b"\\\n", b" ")):
            parts = [part for part in _PASTE.split(pasted) if part not in generator.parameters]
            if all(part in base.encode() for part in parts):
                yield name
                break


def _expansions(text: bytes, macros: Macros, depth: int) -> Iterator[bytes]:
    """A text, and what the macros in it make."""
    yield text
    if depth:
        for use in _uses(text, macros.generators):
            yield from _expansions(macros.generators[use.macro].expand(use.arguments), macros, depth - 1)


def _with_names(text: bytes, macros: Macros) -> bytes:
    """A text with the names in it that macros paste together: ``NAME(add, float)`` is ``k_add_float``."""
    for _ in range(_DEEPEST):  # the name stands in front
        use = next(_uses(text, macros.pasting), None)
        if use is None:
            break
        text = text[: use.start] + macros.pasting[use.macro].expand(use.arguments) + text[use.end :]
    return text


def _uses(text: bytes, named: Mapping[bytes, Generator]) -> Iterator[_Use]:
    """Each use of some macros outside other macros' definitions."""
    called = set(_CALLED.findall(text)) if named else set()
    names = b"|".join(re.escape(name) for name in named if name in called)
    if not names:
        return
    defined = [match.span() for match in _DEFINE.finditer(text)]
    for match in re.finditer(rb"\b(" + names + rb")\s*\(", text):
        given = _arguments(text, match.end())
        if given is not None and not any(low <= match.start() < high for low, high in defined):
            yield _Use(match[1], match.start(), given[1], given[0])


def _arguments(text: bytes, start: int) -> tuple[list[bytes], int] | None:
    """The arguments of a use, and the offset behind its closing parenthesis; None where there is none."""
    closing, found = [b")"], [b""]
    for at in range(start, min(len(text), start + _MOST_ARGUMENT_BYTES)):
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
