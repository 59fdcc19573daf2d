"""Splits a demangled kernel name into its parts.

The name comes from the C++ runtime's demangler, which writes a return type (for templates only), a qualified
name and a parameter list in parentheses. So it is enough to follow the brackets.
"""

from __future__ import annotations

from dataclasses import dataclass

_OPEN = {"(": ")", "<": ">", "[": "]", "{": "}"}
_CLOSE = frozenset(_OPEN.values())
ANONYMOUS = "(anonymous namespace)"


@dataclass(frozen=True)
class KernelName:
    """A kernel's name in parts; ``scopes`` are namespaces and classes, outermost first, without arguments."""

    scopes: tuple[str, ...]
    base: str
    template_arguments: tuple[str, ...]
    parameters: tuple[str, ...]

    @property
    def is_template(self) -> bool:
        """Whether the kernel is an instantiation of a template."""
        return bool(self.template_arguments)


def _measure_depths(text: str) -> list[int]:
    """Return the bracket depth at each character; a bracket itself counts as inside."""
    return _follow_brackets(text)[0]


def _follow_brackets(text: str) -> tuple[list[int], int | None]:
    """Return the depth at each character, and the index of the outermost bracket that is never closed.

    ``<`` opens a bracket only after an identifier, and ``>`` closes only a ``<``. So comparisons in template
    arguments, which the demangler puts into parentheses, are not taken for brackets.
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
    """Split at each ``separator`` outside of all brackets."""
    depths = _measure_depths(text)
    parts: list[str] = []
    start = 0
    for i in range(len(text)):
        if depths[i] == 0 and i >= start and text.startswith(separator, i):
            parts.append(text[start:i])
            start = i + len(separator)
    parts.append(text[start:])
    return parts


def _cut_group(text: str) -> tuple[str, str | None]:
    """Split ``name<args>`` or ``name(args)`` into (name, args); (text, None) if it does not end so."""
    depths = _measure_depths(text)
    if not depths or depths[-1] != 1 or text[-1] not in _CLOSE:
        return text, None
    opener = next(char for char, closer in _OPEN.items() if closer == text[-1])
    start = max(i for i, depth in enumerate(depths) if depth == 1 and text[i] == opener)
    return text[:start], text[start + 1 : -1]


def _split_arguments(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in _split(text, ",")) if text and text.strip() else ()


def drop_signature(demangled: str) -> str:
    """Return a kernel's name with scopes and template arguments, without return type and parameters.

    ``void ns::(anonymous namespace)::f<float>(float*)`` gives ``ns::(anonymous namespace)::f<float>``.
    A name of which a profiler kept the beginning of the scopes alone is returned as it is.
    """
    return _split_signature(demangled)[0] or demangled


def _split_signature(demangled: str) -> tuple[str, str | None]:
    """Split a demangled symbol into its qualified name and the text between the parameters' parentheses."""
    text = demangled.removesuffix(".kd").strip()
    if " [clone " in text:
        text = text[: text.index(" [clone ")]
    text = text[: _follow_brackets(text)[1]]  # profilers cut long names off
    text = _split(text, " requires ")[0]  # a template's constraint comes after the parameters
    head, parameters = _cut_group(text) if text.endswith(")") else (text, None)
    return _split(head, " ")[-1], parameters


def parse_kernel_name(demangled: str) -> KernelName:
    """Split a demangled symbol; a name that was never mangled has no scopes and no parameters.

    ``void ns::(anonymous namespace)::f<float, (kind)39>(float*)`` gives scopes
    ``("ns", "(anonymous namespace)")``, base ``f``, template arguments ``("float", "(kind)39")``, parameters
    ``("float*",)``.
    """
    qualified, parameters = _split_signature(demangled)
    *scopes, last = _split(qualified, "::")
    base, template_arguments = _cut_group(last) if last.endswith(">") else (last, None)
    return KernelName(
        scopes=tuple(scope if scope == ANONYMOUS else _cut_group(scope)[0] for scope in scopes),
        base=base,
        template_arguments=_split_arguments(template_arguments),
        parameters=_split_arguments(parameters),
    )
