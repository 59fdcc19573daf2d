"""The collector's end of the capture protocol. The grammar is in ``native/capture/protocol.hpp``.

What comes from the program's process is untrusted: every message is decoded with its bounds checked, and one
that is not right ends the conversation.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from kerncap_stages.errors import KerncapError
from kerncap_stages.manifests.memory import MemoryKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAGIC = 0x31504143434E524B
VERSION = 4
MAX_MESSAGE_BYTES = 48 * 1024
MAX_RULES = 64
NO_DEVICE = 0xFFFFFFFF

# SELECTED.flags
_WANT_CODE = 1 << 0
_MORE = 1 << 1
_MATCHES = 4000  # in one message, of 8 bytes each

# WELCOME.flags
NO_POST = 1 << 0
REACHABLE = 1 << 1
HOLD = 1 << 2

# region flags
READ_ONLY = 1 << 0
EXECUTABLE = 1 << 2
UNCACHED = 1 << 3
STAYS_ON_HOST = 1 << 4
READ_MOSTLY = 1 << 5

# CAPTURE.flags
FROM_BATCH = 1 << 0
COOPERATIVE = 1 << 1

# In the order of the native enumeration, which starts at 1.
MEMORY_KINDS = tuple(MemoryKind)


class Up(IntEnum):
    """Messages of the capture library."""

    HELLO = 1
    FACTS = 2
    MODULE = 3
    KERNELS = 4
    VARIABLES = 5
    MODULE_END = 6
    MODULE_GONE = 7
    CAPTURE = 8
    REGIONS = 9
    OPEN = 10
    DATA = 11
    ZERO = 12
    SAME = 13
    CLOSE = 14
    DONE = 15
    FAILED = 16
    NOTE = 17
    READY = 18


class Down(IntEnum):
    """Messages of the collector."""

    WELCOME = 101
    SELECTED = 102
    FREE = 103
    STOP = 104
    REFUSED = 105


class Mode(IntEnum):
    """What the library is there for."""

    PROFILE = 1
    CAPTURE = 2


class StreamKind(IntEnum):
    """What the bytes of a stream are."""

    CODE = 1
    PRE = 2
    POST = 3
    IMAGE = 4


class FailureCode(IntEnum):
    """Why a capture failed."""

    TIMEOUT = 1
    DEVICE = 2
    UNSUPPORTED_MEMORY = 3
    UNSUPPORTED_QUEUE = 4
    TOO_LARGE_A_BATCH = 5
    CANCELLED = 6
    REFUSED = 7


class ProtocolError(KerncapError):
    """The other side said something that is not in the grammar."""


@dataclass(frozen=True)
class Rule:
    """Which dispatches of the selected kernels are taken; a grid or a block of zeros is any."""

    first: int = 0
    every: int = 1
    count: int = 1
    grid_blocks: tuple[int, int, int] = (0, 0, 0)
    block_work_items: tuple[int, int, int] = (0, 0, 0)


class Reader:
    """Reads one message, field by field."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)

    def _take(self, count: int) -> memoryview:
        if count > len(self._data):
            raise ProtocolError("a message of the capture library is cut short")
        taken, self._data = self._data[:count], self._data[count:]
        return taken

    def u32(self) -> int:
        """Read an unsigned 32-bit number."""
        return int.from_bytes(self._take(4), "little")

    def u64(self) -> int:
        """Read an unsigned 64-bit number."""
        return int.from_bytes(self._take(8), "little")

    def rest(self) -> bytes:
        """Take what was not read yet."""
        return bytes(self._take(len(self._data)))

    def dim3(self) -> tuple[int, int, int]:
        """Read three unsigned 32-bit numbers."""
        return (self.u32(), self.u32(), self.u32())

    def grid(self) -> tuple[int, int, int]:
        """Read three unsigned 64-bit numbers."""
        return (self.u64(), self.u64(), self.u64())

    def raw(self) -> bytes:
        """Read a counted run of bytes."""
        return bytes(self._take(self.u32()))

    def text(self) -> str:
        """Read a counted run of bytes as text."""
        return self.raw().decode(errors="replace").rstrip("\0")


def pack(kind: Down, layout: str = "", *values: int | bytes) -> bytes:
    """Write a message: its type, then values of a struct layout, without padding."""
    return struct.pack("<I" + layout, kind, *values)


def welcome(
    mode: Mode,
    slot_count: int,
    slot_bytes: int,
    memory_bytes: int,
    wait_ms: int,
    flags: int,
    rules: list[Rule],
) -> bytes:
    """Write the answer to HELLO; the memfd goes with it."""
    head = pack(
        Down.WELCOME, "QIIIQQIII", MAGIC, VERSION, mode, slot_count, slot_bytes, memory_bytes, wait_ms, flags,
        len(rules),
    )  # fmt: skip
    return head + b"".join(
        struct.pack("<QQQ6I", rule.first, rule.every, rule.count, *rule.grid_blocks, *rule.block_work_items)
        for rule in rules
    )


def selected(module: int, want_code: bool, matches: Sequence[tuple[int, int]]) -> Iterator[bytes]:
    """Write the answer to MODULE_END, in as many messages as needed: kernels wanted, and by which rule."""
    parts = [matches[at : at + _MATCHES] for at in range(0, len(matches), _MATCHES)] or [()]
    for number, part in enumerate(parts, 1):
        flags = want_code * _WANT_CODE | (number < len(parts)) * _MORE
        yield pack(Down.SELECTED, "QII", module, flags, len(part)) + b"".join(
            struct.pack("<II", kernel, rule) for kernel, rule in part
        )
