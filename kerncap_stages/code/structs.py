"""The layout of a project's own structs and type names, as far as their source tells it plainly.

Only what the Itanium C++ ABI lays out as C does: members of known size, no bases, no virtual functions, no
bit-fields. Anything else is unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import tree_sitter_cuda
from tree_sitter import Language, Parser

from kerncap_stages.code.element_types import element_type, lanes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tree_sitter import Node

_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}
_POINTER_BYTES = 8
_MAX_DEPTH = 8
_ARRAY = re.compile(r"\[\s*(\d+)\s*\]")


@dataclass(frozen=True)
class Field:
    """A member: its place in bytes from the start, its type as written, how often it stands there."""

    offset_bytes: int
    type_name: str
    name: str
    count: int = 1


@dataclass(frozen=True)
class Layout:
    """A struct: its members, flattened, and its size in bytes."""

    fields: tuple[Field, ...]
    size_bytes: int
    align_bytes: int


class Types:
    """The structs and type names of some source texts."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        """``texts``: files that the kernel's unit reads."""
        self._structs: dict[str, Node | None] = {}
        self._aliases: dict[str, str | None] = {}
        for text in texts:
            for node in _nodes(_parser().parse(text).root_node):
                self._note(node)

    def element_type(self, type_text: str, depth: int = 0) -> str | None:
        """The one type of number that fills a value of this type without gaps; None if there is none."""

        def resolve(name: str) -> str | None:
            if depth > _MAX_DEPTH:
                return None
            short = _unqualified(name)
            alias = self._aliases.get(short)
            if alias is not None:
                return self.element_type(alias, depth + 1)
            layout = self.layout(name)
            if layout is None:
                return None
            kinds = {self.element_type(field.type_name, depth + 1) for field in layout.fields}
            kind = kinds.pop() if len(kinds) == 1 else None
            held = sum(field.count * (lanes(field.type_name) or 1) for field in layout.fields)
            return kind if kind and held * size_of(kind) == layout.size_bytes else None

        return element_type(type_text, resolve)

    def layout(self, type_text: str, depth: int = 0) -> Layout | None:
        """How a struct lies in memory; None where the source does not tell it plainly."""
        key, bound = _unqualified(type_text), {}
        if key not in self._structs:
            key, given = _template(type_text)
            bound = _bound(self._structs.get(key), given)
        node = self._structs.get(key)
        if node is None or depth > _MAX_DEPTH:
            return None
        fields: list[Field] = []
        end, alignment = 0, 1
        for type_name, name, count in _members(node):
            if count is None:
                return None
            inner = self._member(_substituted(type_name, bound), depth)
            if inner is None:
                return None
            end = _up(end, inner.align_bytes)
            for i in range(count if inner.size_bytes and len(inner.fields) > 1 else 1):
                start = end + i * inner.size_bytes
                repeat = count if len(inner.fields) == 1 else 1
                fields += [
                    Field(
                        start + each.offset_bytes,
                        each.type_name,
                        f"{name}.{each.name}" if each.name else name,
                        each.count * repeat,
                    )
                    for each in inner.fields
                ]
            end += inner.size_bytes * count
            alignment = max(alignment, inner.align_bytes)
        return Layout(tuple(fields), _up(end, alignment), alignment) if fields else None

    def _member(self, type_name: str, depth: int) -> Layout | None:
        if type_name.endswith("*"):
            return Layout((Field(0, type_name, ""),), _POINTER_BYTES, _POINTER_BYTES)
        count, kind = lanes(type_name), element_type(type_name)
        if count is not None and kind is not None:
            size = size_of(kind)
            # HIP aligns a vector of two or four to its whole size, one of three to an element.
            whole = count * size
            return Layout((Field(0, type_name, "", 1),), whole, size if count == 3 else whole)
        alias = self._aliases.get(_unqualified(type_name))
        if alias is not None and depth <= _MAX_DEPTH:
            return self._member(alias, depth + 1)
        return self.layout(type_name, depth + 1)

    def _note(self, node: Node) -> None:
        if node.type in ("struct_specifier", "class_specifier"):
            name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
            if name is not None and name.text and body is not None:
                key = _unqualified(name.text.decode(errors="replace"))
                # Two of one name: which is meant would be a guess.
                self._structs[key] = None if key in self._structs else node
        elif node.type in ("alias_declaration", "type_definition"):
            declared = node.child_by_field_name("name") or node.child_by_field_name("declarator")
            target = node.child_by_field_name("type")
            if declared is None or target is None or not declared.text or not target.text:
                return
            if declared.type not in ("type_identifier", "primitive_type"):
                return
            key, value = declared.text.decode(errors="replace"), target.text.decode(errors="replace")
            value = " ".join(value.split())
            self._aliases[key] = value if self._aliases.get(key, value) == value else None


def size_of(kind: str) -> int:
    """Bytes of one element of a type of comparison.ELEMENT_TYPES; 0 for anything else."""
    if kind.startswith("fp8"):
        return 1
    match = re.fullmatch(r"(?:u?int|fp|bf)(8|16|32|64)", kind)
    return _SIZES[match[1]] if match else 0


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_cuda.language()))


def _nodes(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def _members(struct: Node) -> Iterator[tuple[str, str, int | None]]:
    """(type, name, count) of each data member; a count of None where the struct is no plain one."""
    body = struct.child_by_field_name("body")
    if any(child.type == "base_class_clause" for child in struct.children) or body is None:
        yield "", "", None
        return
    for child in body.named_children:
        text = child.text or b""
        if child.type != "field_declaration":
            if b"virtual" in text and child.type == "function_definition":
                yield "", "", None
            continue
        declarators = child.children_by_field_name("declarator")
        if any(_is_function(declarator) for declarator in declarators) or text.startswith(b"static"):
            if b"virtual" in text:
                yield "", "", None
            continue
        base = child.child_by_field_name("type")
        plain = (
            base is not None and base.text is not None and b"alignas" not in text and b":" not in _tail(child)
        )
        for declarator in declarators or (None,):
            if not plain or declarator is None or base is None or base.text is None:
                yield "", "", None
                continue
            written = (declarator.text or b"").decode(errors="replace")
            stars = "*" * (written.count("*") + written.count("&"))
            counts = [int(count) for count in _ARRAY.findall(written)]
            if written.count("[") != len(counts):
                yield "", "", None
                continue
            total = 1
            for count in counts:
                total *= count
            name = re.sub(r"[*&\s]|\[.*", "", written)
            type_name = " ".join(base.text.decode(errors="replace").split())
            yield type_name + stars, name, total


def _tail(member: Node) -> bytes:
    """A bit-field's width stands in a clause of its own."""
    return b":" if any(child.type == "bitfield_clause" for child in member.children) else b""


def _is_function(node: Node) -> bool:
    return node.type == "function_declarator" or any(_is_function(child) for child in node.named_children)


def _unqualified(type_text: str) -> str:
    text = re.sub(r"\b(?:const|volatile|struct|class)\b", " ", type_text)
    head, opened, arguments = "".join(text.split()).partition("<")
    return head.rsplit("::", 1)[-1] + opened + arguments


def _template(type_text: str) -> tuple[str, list[str]]:
    """``Args`` and its arguments of ``const lib::Args<float, lib::Tag<1> >``."""
    text = re.sub(r"\b(?:const|volatile|struct|class)\b", " ", type_text).strip()
    head, opened, rest = text.partition("<")
    if not opened or not rest.endswith(">"):
        return _unqualified(text), []
    arguments, depth = [""], 0
    for letter in rest[:-1]:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            arguments.append("")
        else:
            arguments[-1] += letter
    return _unqualified(head), [" ".join(argument.split()) for argument in arguments]


def _bound(struct: Node | None, given: Sequence[str]) -> dict[str, str]:
    """What the parameters of a struct template stand for; those that were not given are left out."""
    outer = struct.parent if struct is not None else None
    parameters = outer.child_by_field_name("parameters") if outer is not None else None
    if parameters is None:
        return {}
    names = [
        next((node.text for node in _nodes(each) if node.type in ("type_identifier", "identifier")), None)
        for each in parameters.named_children
        if each.type != "comment"
    ]
    return {
        name.decode(errors="replace"): argument for name, argument in zip(names, given, strict=False) if name
    }


def _substituted(type_name: str, bound: Mapping[str, str]) -> str:
    return re.sub(r"\b[A-Za-z_]\w*\b", lambda word: bound.get(word[0], word[0]), type_name)


def _up(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment
