"""Both ends of the capture protocol are written from one declaration: they agree on every message."""

from __future__ import annotations

import dataclasses
import re
import struct
import subprocess
import sys
import tomllib
import typing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncap_stages.collect import protocol
from kerncap_stages.collect.wire import ProtocolError
from kerncap_stages.machine.native_paths import LIBRARY_FOLDER
from kerncap_stages.manifests.memory import MemoryKind

TOP = Path(__file__).parents[3]
UP, DOWN = typing.get_args(protocol.UpMessage), typing.get_args(protocol.DownMessage)
DECLARED = tomllib.loads((TOP / "native/capture/protocol/protocol.toml").read_text())
U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
NUMBERS = {
    "u32": U32,
    "u32x3": st.tuples(U32, U32, U32),
    "u64": U64,
    "u64x3": st.tuples(U64, U64, U64),
}
# Both ends cut zeros at the end of text, and neither is asked to keep what is no UTF-8.
TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=40)


def declared_types(kind: type) -> dict[str, str]:
    """The type of each field of a message or a part, as the declaration writes it."""
    message = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()
    fields = DECLARED["structs"].get(kind.__name__) or DECLARED["messages"][message]["fields"]
    return {name: each if isinstance(each, str) else each["type"] for name, each in fields.items()}


def values_of(kind: type) -> st.SearchStrategy[object]:
    """Any message or part of this type; numbers are as large as the declaration says."""
    hints = typing.get_type_hints(kind)
    declared = declared_types(kind)
    fields = {}
    for item in dataclasses.fields(kind):
        hint = hints[item.name]
        if hint is str:
            fields[item.name] = TEXT
        elif hint is bytes:
            fields[item.name] = st.binary(max_size=40)
        elif dataclasses.is_dataclass(hint):
            fields[item.name] = values_of(hint)
        elif hint is not int and isinstance(hint, type):
            fields[item.name] = st.sampled_from(hint)
        elif typing.get_args(hint)[-1:] == (Ellipsis,):
            fields[item.name] = st.lists(values_of(typing.get_args(hint)[0]), max_size=3).map(tuple)
        else:
            fields[item.name] = NUMBERS[declared[item.name]]
    return st.builds(kind, **fields)


def echoed(packets: list[bytes]) -> list[bytes]:
    """The same messages, read and written again by the library's end."""
    given_bytes = b"".join(struct.pack("<I", len(each)) + each for each in packets)
    done = subprocess.run(
        [LIBRARY_FOLDER / "protocol_echo"], input=given_bytes, capture_output=True, check=True
    )
    found, rest = [], done.stdout
    while rest:
        size = int.from_bytes(rest[:4], "little")
        found.append(rest[4 : 4 + size])
        rest = rest[4 + size :]
    return found


@pytest.mark.parametrize("kind", [*UP, *DOWN], ids=lambda kind: kind.__name__)
def test_both_ends_read_and_write_the_same(kind):
    decode = protocol.decode_up if kind in UP else protocol.decode_down

    @settings(max_examples=20, deadline=None)
    @given(st.lists(values_of(kind), min_size=1, max_size=20))
    def agree(sent):
        packets = [protocol.encode(message) for message in sent]
        assert [decode(packet) for packet in packets] == sent
        assert echoed(packets) == packets

    agree()


def test_the_bytes_are_those_of_the_declaration():
    """One message written by hand: number, u32, enumeration, three u64."""
    opened = protocol.Open(stream=7, kind=protocol.StreamKind.POST, capture=2**40, index=5, size_bytes=9)
    assert protocol.encode(opened) == struct.pack("<IIIQQQ", 10, 7, 3, 2**40, 5, 9)
    welcome = protocol.Welcome(
        protocol.MAGIC, 5, protocol.Mode.CAPTURE, 1, 2, 3, 4, (protocol.Rule(first=6),)
    )
    rule = struct.pack("<QQQ6III", 6, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0)
    assert (
        protocol.encode(welcome) == struct.pack("<IQIIIQIII", 101, protocol.MAGIC, 5, 2, 1, 2, 3, 4, 1) + rule
    )


@pytest.mark.parametrize("kind", UP, ids=lambda kind: kind.__name__)
def test_a_message_that_is_not_whole_is_refused(kind):
    @settings(max_examples=10, deadline=None)
    @given(values_of(kind), st.data())
    def refuse(message, data):
        packet = protocol.encode(message)
        for wrong in (packet[: data.draw(st.integers(0, len(packet) - 1))], packet + b"\0"):
            with pytest.raises(ProtocolError, match=r"cut short|too many"):
                protocol.decode_up(wrong)

    refuse()


def test_numbers_that_mean_nothing_are_refused():
    with pytest.raises(ProtocolError, match="unknown type 999") as caught:
        protocol.decode_up(struct.pack("<I", 999))
    assert caught.value.hint
    with pytest.raises(ProtocolError, match="unknown StreamKind: 77"):
        protocol.decode_up(struct.pack("<IIIQQQ", 10, 7, 77, 0, 0, 0))


def test_a_list_that_claims_to_be_endless_is_refused_at_once():
    with pytest.raises(ProtocolError, match="cut short"):
        protocol.decode_up(struct.pack("<IQI", protocol.Up.KERNELS, 1, 2**32 - 1))


def test_memory_has_the_kinds_of_the_manifests():
    assert [kind.name for kind in protocol.MemoryKind] == [kind.name for kind in MemoryKind]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (('stream = "u32"', 'stream = "u33"'), "there is no type u33"),
        (("number = 11", "number = 10"), r"share the numbers \[10\]"),
        (('facts = "Fact[]"', 'facts = "Fact[]"\nmore = "u32"'), "a list is the last field"),
    ],
)
def test_a_declaration_that_cannot_be_meant_ends_the_build(tmp_path, change, complaint):
    folder = TOP / "native/capture/protocol"
    declaration = tmp_path / "protocol.toml"
    declaration.write_text((folder / "protocol.toml").read_text().replace(*change, 1))
    command = [
        sys.executable,
        folder / "generate.py",
        folder / "protocol.py.j2",
        declaration,
        tmp_path / "out",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(complaint, done.stderr), done.stderr
    assert not (tmp_path / "out").exists()
