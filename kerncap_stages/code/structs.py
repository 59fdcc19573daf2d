"""Finds the memory layout of a project's structs and type names from their source.

Only structs that the Itanium C++ ABI lays out as C does are known: members of known size, no bases, no
virtual functions, no bit-fields. The layout of all others is unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import tree_sitter_cuda
from tree_sitter import Language, Parser

from kerncap_stages.code.element_types import count_lanes, find_element_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tree_sitter import Node

_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}
_POINTER_BYTES = 8
_MAX_DEPTH = 8
_ARRAY = re.compile(r"\[\s*(\d+)\s*\]")
# No struct and no alias has a name of these words.
_FUNDAMENTAL = frozenset(
    {"void", "bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "const"}
)


@dataclass(frozen=True)
class Field:
    """A member of a struct: its offset, its type as written, and the number of elements if it is an array."""

    offset_bytes: int
    type_name: str
    name: str
    count: int = 1


@dataclass(frozen=True)
class Layout:
    """A struct's layout: its members, with those of nested structs in place, and its size."""

    fields: tuple[Field, ...]
    size_bytes: int
    align_bytes: int


class _Declared:
    """The structs and aliases that some texts declare."""

    def __init__(self) -> None:
        self.structs: dict[str, Node | None] = {}
        self.aliases: dict[str, str | None] = {}

    def note(self, node: Node) -> None:
        """Add what a node declares."""
        if node.type in ("struct_specifier", "class_specifier"):
            name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
            if name is not None and name.text and body is not None:
                key = _drop_qualifiers(name.text.decode(errors="replace"))
                # Two structs with the same name: a use could mean either, so the name is unknown.
                self.structs[key] = None if key in self.structs else node
        elif node.type in ("alias_declaration", "type_definition"):
            declared = node.child_by_field_name("name") or node.child_by_field_name("declarator")
            target = node.child_by_field_name("type")
            if declared is None or target is None or not declared.text or not target.text:
                return
            if declared.type not in ("type_identifier", "primitive_type"):
                return
            key, value = declared.text.decode(errors="replace"), target.text.decode(errors="replace")
            value = " ".join(value.split())
            self.aliases[key] = value if self.aliases.get(key, value) == value else None


class Types:
    """The structs and type names of some source texts."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        """``texts``: the contents of the files that the kernel's unit reads.

        They are read when a type is asked for that the language does not define: most kernels have none, and
        parsing a library's headers takes long.
        """
        self._texts = texts

    def find_element_type(self, type_text: str, depth: int = 0) -> str | None:
        """Return the one type of number that fills this type without gaps; None if there is none."""

        def resolve(name: str) -> str | None:
            if depth > _MAX_DEPTH or _is_fundamental(name):
                return None
            alias = self._declared.aliases.get(_drop_qualifiers(name))
            if alias is not None:
                return self.find_element_type(alias, depth + 1)
            layout = self.find_layout(name)
            if layout is None:
                return None
            kinds = {self.find_element_type(field.type_name, depth + 1) for field in layout.fields}
            kind = kinds.pop() if len(kinds) == 1 else None
            held = sum(field.count * (count_lanes(field.type_name) or 1) for field in layout.fields)
            return kind if kind and held * find_size(kind) == layout.size_bytes else None

        return find_element_type(type_text, resolve)

    def find_layout(self, type_text: str, depth: int = 0) -> Layout | None:
        """Return the layout of a struct; None if it is unknown."""
        if _is_fundamental(type_text):
            return None
        structs = self._declared.structs
        key, bound = _drop_qualifiers(type_text), {}
        if key not in structs:
            key, given = _split_template(type_text)
            bound = _bind_parameters(structs.get(key), given)
        node = structs.get(key)
        if node is None or depth > _MAX_DEPTH:
            return None
        fields: list[Field] = []
        end, alignment = 0, 1
        for type_name, name, count in _list_members(node):
            if count is None:
                return None
            inner = self._lay_out_member(_substitute(type_name, bound), depth)
            if inner is None:
                return None
            end = _round_up(end, inner.align_bytes)
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
        return Layout(tuple(fields), _round_up(end, alignment), alignment) if fields else None

    def _lay_out_member(self, type_name: str, depth: int) -> Layout | None:
        if type_name.endswith("*"):
            return Layout((Field(0, type_name, ""),), _POINTER_BYTES, _POINTER_BYTES)
        count, kind = count_lanes(type_name), find_element_type(type_name)
        if count is not None and kind is not None:
            size = find_size(kind)
            # HIP aligns a vector of two or four elements to its whole size, a vector of three to one element.
            whole = count * size
            return Layout((Field(0, type_name, "", 1),), whole, size if count == 3 else whole)
        alias = self._declared.aliases.get(_drop_qualifiers(type_name))
        if alias is not None and depth <= _MAX_DEPTH:
            return self._lay_out_member(alias, depth + 1)
        return self.find_layout(type_name, depth + 1)

    @cached_property
    def _declared(self) -> _Declared:
        declared = _Declared()
        for text in self._texts:
            for node in _walk_nodes(_make_parser().parse(text).root_node):
                declared.note(node)
        return declared


def find_size(kind: str) -> int:
    """Return the size in bytes of a number of an ``ElementType``; 0 for any other type."""
    if kind.startswith("fp8"):
        return 1
    match = re.fullmatch(r"(?:u?int|fp|bf)(8|16|32|64)", kind)
    return _SIZES[match[1]] if match else 0


def _is_fundamental(type_text: str) -> bool:
    return _FUNDAMENTAL.issuperset(type_text.split())


@cache
def _make_parser() -> Parser:
    return Parser(Language(tree_sitter_cuda.language()))


def _walk_nodes(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def _list_members(struct: Node) -> Iterator[tuple[str, str, int | None]]:
    """Yield (type, name, count) of each data member; a count of None if the struct's layout is unknown."""
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
            base is not None
            and base.text is not None
            and b"alignas" not in text
            and b":" not in _find_bit_field(child)
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


def _find_bit_field(member: Node) -> bytes:
    """Return ``:`` if a member is a bit-field: tree-sitter has a node of its own for the width."""
    return b":" if any(child.type == "bitfield_clause" for child in member.children) else b""


def _is_function(node: Node) -> bool:
    return node.type == "function_declarator" or any(_is_function(child) for child in node.named_children)


def _drop_qualifiers(type_text: str) -> str:
    text = re.sub(r"\b(?:const|volatile|struct|class)\b", " ", type_text)
    head, opened, arguments = "".join(text.split()).partition("<")
    return head.rsplit("::", 1)[-1] + opened + arguments


def _split_template(type_text: str) -> tuple[str, list[str]]:
    """Split ``const lib::Args<float, lib::Tag<1> >`` into ``Args`` and its two arguments."""
    text = re.sub(r"\b(?:const|volatile|struct|class)\b", " ", type_text).strip()
    head, opened, rest = text.partition("<")
    if not opened or not rest.endswith(">"):
        return _drop_qualifiers(text), []
    arguments, depth = [""], 0
    for letter in rest[:-1]:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            arguments.append("")
        else:
            arguments[-1] += letter
    return _drop_qualifiers(head), [" ".join(argument.split()) for argument in arguments]


def _bind_parameters(struct: Node | None, given: Sequence[str]) -> dict[str, str]:
    """Return the arguments by the names of a struct template's parameters; defaults are not included."""
    outer = struct.parent if struct is not None else None
    parameters = outer.child_by_field_name("parameters") if outer is not None else None
    if parameters is None:
        return {}
    names = [
        next(
            (node.text for node in _walk_nodes(each) if node.type in ("type_identifier", "identifier")), None
        )
        for each in parameters.named_children
        if each.type != "comment"
    ]
    return {
        name.decode(errors="replace"): argument for name, argument in zip(names, given, strict=False) if name
    }


def _substitute(type_name: str, bound: Mapping[str, str]) -> str:
    return re.sub(r"\b[A-Za-z_]\w*\b", lambda word: bound.get(word[0], word[0]), type_name)


def _round_up(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment
