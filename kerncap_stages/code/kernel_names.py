"""The parts of a demangled kernel name.

The text comes from the C++ runtime's own demangler, whose output is a small grammar: an optional return type
(templates only), a qualified name, a parenthesised parameter list. Only brackets need to be followed.
"""

from __future__ import annotations

from dataclasses import dataclass

_OPEN = {"(": ")", "<": ">", "[": "]", "{": "}"}
_CLOSE = frozenset(_OPEN.values())
ANONYMOUS = "(anonymous namespace)"


@dataclass(frozen=True)
class KernelName:
    """A kernel's qualified name: ``scopes`` from the outside in, without their template arguments."""

    scopes: tuple[str, ...]
    base: str
    template_arguments: tuple[str, ...]
    parameters: tuple[str, ...]

    @property
    def is_template(self) -> bool:
        """Whether the kernel is an instantiation of a template."""
        return bool(self.template_arguments)


def _depths(text: str) -> list[int]:
    """The bracket depth at each character; a bracket itself counts as inside."""
    return _brackets(text)[0]


def _brackets(text: str) -> tuple[list[int], int | None]:
    """The depth at each character, and where the outermost bracket stands that is never closed.

    ``<`` opens only behind an identifier and ``>`` closes only what ``<`` opened, so that comparisons inside
    template arguments, which the demangler wraps in parentheses, are not mistaken for brackets.
    """
    depths: list[int] = []
    open_at: list[int] = []
    for i, char in enumerate(text):
        opens = char in _OPEN and (char != "<" or (i > 0 and (text[i - 1].isalnum() or text[i - 1] == "_")))
        if opens:
            open_at.append(i)
        depths.append(len(open_at))
        if not opens and open_at and char == _OPEN[text[open_at[-1]]]:
            open_at.pop()
    return depths, open_at[0] if open_at else None


def _split(text: str, separator: str) -> list[str]:
    """Split at ``separator`` outside all brackets."""
    depths = _depths(text)
    parts: list[str] = []
    start = 0
    for i in range(len(text)):
        if depths[i] == 0 and i >= start and text.startswith(separator, i):
            parts.append(text[start:i])
            start = i + len(separator)
    parts.append(text[start:])
    return parts


def _cut_group(text: str) -> tuple[str, str | None]:
    """``name<args>`` or ``name(args)`` to (name, args); (text, None) when it does not end with a group."""
    depths = _depths(text)
    if not depths or depths[-1] != 1 or text[-1] not in _CLOSE:
        return text, None
    opener = next(char for char, closer in _OPEN.items() if closer == text[-1])
    start = max(i for i, depth in enumerate(depths) if depth == 1 and text[i] == opener)
    return text[:start], text[start + 1 : -1]


def _arguments(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in _split(text, ",")) if text and text.strip() else ()


def parse_kernel_name(demangled: str) -> KernelName:
    """Take a demangled symbol apart; a name that was never mangled has no scopes and no parameters.

    ``void ns::(anonymous namespace)::f<float, (kind)39>(float*)`` gives scopes
    ``("ns", "(anonymous namespace)")``, base ``f``, template arguments ``("float", "(kind)39")``, parameters
    ``("float*",)``.
    """
    text = demangled.removesuffix(".kd").strip()
    if " [clone " in text:
        text = text[: text.index(" [clone ")]
    text = text[: _brackets(text)[1]]  # profilers cut long names off
    text = _split(text, " requires ")[0]  # the constraint of a template stands behind the parameters
    head, parameters = _cut_group(text) if text.endswith(")") else (text, None)
    qualified = _split(head, " ")[-1]
    *scopes, last = _split(qualified, "::")
    base, template_arguments = _cut_group(last) if last.endswith(">") else (last, None)
    return KernelName(
        scopes=tuple(scope if scope == ANONYMOUS else _cut_group(scope)[0] for scope in scopes),
        base=base,
        template_arguments=_arguments(template_arguments),
        parameters=_arguments(parameters),
    )
