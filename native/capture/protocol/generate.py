"""Write both sides of the capture protocol from protocol.toml.

    generate.py TEMPLATE PROTOCOL.TOML OUTPUT

renders one of the templates. The declaration is checked first: a type that nobody declared, a number
that is used twice, or a list that is not the last field of its message ends the build.
"""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2

NUMBERS = {"u16": 2, "u32": 4, "u64": 8}
VECTORS = {"u32x3": "u32", "u64x3": "u64"}
BYTES = ("text", "bytes")


@dataclass(frozen=True)
class Field:
    """A field of a structure or message, or of a layout in shared memory."""

    name: str
    type: str  # without []
    is_list: bool = False
    about: str = ""
    default: int | None = None


@dataclass(frozen=True)
class Place:
    """A field of a layout, with the offset in bytes at which it lies."""

    name: str
    type: str
    offset: int
    count: int
    about: str
    is_atomic: bool
    align: int | None


@dataclass(frozen=True)
class Record:
    """A structure, or the body of a message."""

    name: str
    fields: list[Field]
    number: int = 0
    sender: str = ""
    about: str = ""

    @property
    def class_name(self) -> str:
        """The name in CamelCase: free_slot becomes FreeSlot."""
        return "".join(word[:1].upper() + word[1:] for word in self.name.split("_"))

    @property
    def list(self) -> Field | None:
        """The list at the end, if there is one."""
        return self.fields[-1] if self.fields and self.fields[-1].is_list else None

    @property
    def has_defaults(self) -> bool:
        """Whether a field before the list has a default value: the list is empty by default then."""
        return any(item.default is not None for item in self.head)

    @property
    def head(self) -> list[Field]:
        """The fields before the list."""
        return [item for item in self.fields if not item.is_list]


@dataclass(frozen=True)
class Layout:
    """What lies in the memory that both sides share."""

    name: str
    places: list[Place]
    size: int


@dataclass
class Protocol:
    """The whole declaration."""

    constants: dict[str, dict[str, Any]]
    enums: dict[str, dict[str, dict[str, Any]]]
    flags: dict[str, dict[str, dict[str, Any]]]
    structs: list[Record]
    messages: list[Record]
    layouts: list[Layout] = field(default_factory=list)

    def of(self, sender: str) -> list[Record]:
        """The messages of one side, by number."""
        return sorted((m for m in self.messages if m.sender == sender), key=lambda m: m.number)


def read(path: Path) -> Protocol:
    """Read a declaration, and check it."""
    text = tomllib.loads(path.read_text(encoding="utf-8"))
    protocol = Protocol(
        constants={
            name: {"type": "u64", **_table(value, "value")} for name, value in text["constants"].items()
        },
        enums={
            name: {item: _table(value, "value") for item, value in items.items()}
            for name, items in text["enums"].items()
        },
        flags={
            name: {item: _table(value, "bit") for item, value in items.items()}
            for name, items in text["flags"].items()
        },
        structs=[Record(name, _fields(fields)) for name, fields in text["structs"].items()],
        messages=[
            Record(name, _fields(m["fields"]), m["number"], m["from"], m.get("about", ""))
            for name, m in text["messages"].items()
        ],
    )
    values = {name: item["value"] for name, item in protocol.constants.items()}
    protocol.layouts = [_layout(name, fields, values) for name, fields in text["layouts"].items()]
    _check(protocol)
    return protocol


def _table(value: Any, key: str) -> dict[str, Any]:
    """What is written as a table, or as its most important entry alone."""
    return {"about": "", **(value if isinstance(value, dict) else {key: value})}


def _fields(declared: dict[str, Any]) -> list[Field]:
    fields = []
    for name, value in declared.items():
        item = _table(value, "type")
        kind = item["type"].removesuffix("[]")
        is_list = kind != item["type"]
        fields.append(Field(name, kind, is_list, item["about"], item.get("default")))
    return fields


def _layout(name: str, declared: dict[str, Any], constants: dict[str, int]) -> Layout:
    places, offset = [], 0
    for place, value in declared.items():
        item = _table(value, "type")
        size, align, count = NUMBERS[item["type"]], item.get("align"), item.get("count", 1)
        count = constants[count] if isinstance(count, str) else count
        step = align or size
        offset = -(-offset // step) * step
        places.append(
            Place(place, item["type"], offset, count, item["about"], item.get("atomic", False), align)
        )
        offset += size * count
    widest = max(place.align or NUMBERS[place.type] for place in places)
    return Layout(name, places, -(-offset // widest) * widest)


def _check(protocol: Protocol) -> None:
    known = {*NUMBERS, *VECTORS, *BYTES, *protocol.enums} - {"u16"}
    for record in [*protocol.structs, *protocol.messages]:
        for item in record.fields:
            if item.type not in known:
                sys.exit(f"protocol.toml: {record.name}.{item.name}: there is no type {item.type} before it")
            if item.is_list and item is not record.fields[-1]:
                sys.exit(f"protocol.toml: {record.name}.{item.name}: a list is the last field")
        if not record.number:
            known.add(record.name)
    numbers = [message.number for message in protocol.messages]
    twice = {number for number in numbers if numbers.count(number) > 1}
    if twice:
        sys.exit(f"protocol.toml: messages share the numbers {sorted(twice)}")
    senders = {message.sender for message in protocol.messages}
    if senders != {"library", "collector"}:
        sys.exit(f"protocol.toml: messages are from library or collector, not from {sorted(senders)}")


def render(protocol: Protocol, template: Path) -> str:
    """Fill a template in."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template.parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - these are programs, not pages
    )
    environment.filters["camel"] = lambda name: re.sub(
        r"(?:^|_)([a-z])", lambda found: found[1].upper(), name
    )
    return environment.get_template(template.name).render(
        protocol=protocol,
        structs={struct.name for struct in protocol.structs},
        vectors=VECTORS,
        numbers=NUMBERS,
    )


def main() -> None:
    """Write what the command line asks for."""
    template, declaration, output = map(Path, sys.argv[1:])
    output.write_text(render(read(declaration), template), encoding="utf-8")


if __name__ == "__main__":
    main()
