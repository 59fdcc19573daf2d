"""Finds the definitions of kernels with tree-sitter's grammars.

The CUDA grammar knows ``__global__`` and ``__launch_bounds__``; project macros around them leave error nodes,
in which the declarator is still found. The C++ grammar recovers from other errors, so both grammars are used
and their results are united. The text before a declarator is then read token by token, macros included.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import tree_sitter_cpp
import tree_sitter_cuda
from tree_sitter import Language, Parser

from kerncap_stages.code.kernel_names import ANONYMOUS
from kerncap_stages.locate.macros import BODY, find_uses_that_make

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tree_sitter import Node

    from kerncap_stages.locate.macros import Macros

_IDENTIFIER = re.compile(rb"[A-Za-z_]\w*")
_STATEMENT_END = re.compile(rb"[;{}]|^[ \t]*#(?:[^\n\\]|\\\n|\\.)*$", re.MULTILINE)
_CONDITION = re.compile(
    rb"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif|else|endif)\b(?:[^\n\\]|\\\n|\\.)*$", re.MULTILINE
)
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/|\A(?:(?!/\*).)*?\*/", re.DOTALL)
_DECLARATOR_TYPES = frozenset({"function_declarator"})
_PREFIX_BYTES = 4096
_IF = frozenset({"#if", "#ifdef", "#ifndef"})
_ELSE = frozenset({"#else", "#elif", "#elifdef", "#elifndef"})


@dataclass(frozen=True)
class Definition:
    """One definition of a kernel; lines count from 1."""

    path: Path
    line: int
    last_line: int
    scopes: tuple[str, ...]
    is_template: bool
    parameters: tuple[tuple[str, str], ...] = ()  # (type, name) as written
    macro: str | None = None  # the macro whose use makes the kernel, if there is no plain definition


@cache
def _make_parsers() -> tuple[Parser, ...]:
    return tuple(Parser(Language(module.language())) for module in (tree_sitter_cuda, tree_sitter_cpp))


def find_definitions(path: Path, text: bytes, base: str, macros: Macros) -> list[Definition]:
    """Find the definitions of kernels named ``base`` in one file, in the order of their lines."""
    name = base.encode()
    if name not in text and not macros.generators:
        return []
    found: dict[int, Definition] = {}
    if name in text:
        found = _find_plain(path, text, name, macros)
        if _CONDITION.search(text):
            # A preprocessor condition may be inside a head, around __launch_bounds__; not in each overload's.
            found = _find_plain(path, _CONDITION.sub(_blank, text), name, macros) | found
    if not found:
        for macro, line in find_uses_that_make(base, text, macros):
            found[line] = Definition(path, line, line, (), is_template=False, macro=macro)
    return [found[line] for line in sorted(found)]


def _find_plain(path: Path, text: bytes, name: bytes, macros: Macros) -> dict[int, Definition]:
    """Find the definitions that no macro makes, by line."""
    found: dict[int, Definition] = {}
    marks = macros.launch | {b"__global__"}
    for parser in _make_parsers():
        root = parser.parse(text).root_node
        for declarator in _find_declarators(root, name):
            definition = _read_definition(path, text, root, declarator, marks)
            if definition is not None:
                found.setdefault(definition.line, definition)
    return found


def _blank(match: re.Match[bytes]) -> bytes:
    """Replace all characters but line breaks by spaces."""
    return re.sub(rb"[^\n]", b" ", match[0])


def _find_declarators(root: Node, name: bytes) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in _DECLARATOR_TYPES:
            inner = node.child_by_field_name("declarator")
            if inner is not None and inner.text is not None:
                unqualified = inner.text.rsplit(b"::", 1)[-1]
                if unqualified.split(b"<", 1)[0].strip() == name:
                    yield node
        stack.extend(node.children)


def _read_definition(
    path: Path, text: bytes, root: Node, declarator: Node, marks: frozenset[bytes] | set[bytes]
) -> Definition | None:
    body = BODY.match(text, declarator.end_byte)
    if body is None:
        return None  # a declaration, or a call
    window = _COMMENT.sub(b" ", text[max(0, declarator.start_byte - _PREFIX_BYTES) : declarator.start_byte])
    ends = [match.end() for match in _STATEMENT_END.finditer(window)]
    prefix = window[ends[-1] if ends else 0 :]
    tokens = _IDENTIFIER.findall(prefix)
    if not marks & set(tokens):
        return None
    body_end = _find_body_end(root, body.end())
    return Definition(
        path=path,
        line=text.count(b"\n", 0, declarator.start_byte) + 1,
        last_line=text.count(b"\n", 0, body_end) + 1,
        scopes=_read_scopes(declarator),
        is_template=b"template" in tokens or _is_in_template(declarator),
        parameters=tuple(_read_parameters(declarator)),
    )


def _is_in_template(node: Node | None) -> bool:
    while node is not None and node.type != "translation_unit":
        if node.type == "template_declaration":
            return True
        if node.type == "compound_statement":
            return False
        node = node.parent
    return False


def _read_parameters(declarator: Node) -> Iterator[tuple[str, str]]:
    listed = declarator.child_by_field_name("parameters")
    for parameter in listed.named_children if listed is not None else ():
        if parameter.type not in ("parameter_declaration", "optional_parameter_declaration"):
            continue
        inner = parameter.child_by_field_name("declarator")
        while inner is not None and inner.type != "identifier":
            inner = inner.child_by_field_name("declarator") or next(
                iter(reversed(inner.named_children)), None
            )
        whole = parameter.text or b""
        if inner is None or inner.text is None:
            type_text, name = whole, b""
        else:
            start, end = inner.start_byte - parameter.start_byte, inner.end_byte - parameter.start_byte
            type_text, name = whole[:start] + whole[end:].split(b"=")[0], inner.text
        yield " ".join(type_text.decode(errors="replace").split()), name.decode(errors="replace")


def _find_body_end(root: Node, start: int) -> int:
    """Find the offset of the brace that ends a body; the file's end if there is none.

    start: the offset after the body's first brace.
    The grammar's tokens are counted, because a brace in a string or a comment is not a token. The grammar's
    nodes are not used: if both branches of a condition open a block, a node ends one brace too late.
    """
    depth = 1
    first_branch_ended: list[bool] = []  # for each open condition
    for token in _list_tokens(root, start):
        word = token.type
        if word == "preproc_directive" and token.text is not None:
            word = "".join(token.text.decode(errors="replace").split())
        if word in _IF:
            first_branch_ended.append(False)
        elif word in _ELSE and first_branch_ended:
            first_branch_ended[-1] = True
        elif word == "#endif" and first_branch_ended:
            first_branch_ended.pop()
        elif not any(first_branch_ended):
            depth += (word == "{") - (word == "}")
            if depth == 0:
                return token.start_byte
    return root.end_byte


def _list_tokens(root: Node, start: int) -> Iterator[Node]:
    """List the leaves of a tree after an offset, in order, without those that the grammar inserted."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.child_count:
            stack.extend(child for child in reversed(node.children) if child.end_byte > start)
        elif node.start_byte >= start and not node.is_missing:
            yield node


def _read_scopes(node: Node) -> tuple[str, ...]:
    scopes: list[str] = []
    parent = node.parent
    while parent is not None:
        if parent.type == "namespace_definition":
            label = parent.child_by_field_name("name")
            text = label.text if label is not None else None
            scopes[:0] = text.decode(errors="replace").split("::") if text else [ANONYMOUS]
        parent = parent.parent
    return tuple(scopes)
