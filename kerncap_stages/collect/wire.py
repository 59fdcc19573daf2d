"""Reads and writes the fields of the messages in ``protocol.py``.

Data from the program's process is untrusted: every bound is checked, and an invalid message ends the
connection.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TypeVar

from kerncap_stages.errors import KerncapError

_Enum = TypeVar("_Enum", bound=IntEnum)


class ProtocolError(KerncapError):
    """The capture library sent something that the protocol does not allow."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(
            message,
            hint=hint
            or "check whether the program writes to files that it did not open; if not, reinstall "
            "kerncap-stages, because its parts may be of different versions",
        )


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

    def u32x3(self) -> tuple[int, int, int]:
        """Read three unsigned 32-bit numbers."""
        return (self.u32(), self.u32(), self.u32())

    def u64x3(self) -> tuple[int, int, int]:
        """Read three unsigned 64-bit numbers."""
        return (self.u64(), self.u64(), self.u64())

    def one_of(self, kind: type[_Enum]) -> _Enum:
        """Read a member of an enumeration."""
        number = self.u32()
        try:
            return kind(number)
        except ValueError as error:
            raise ProtocolError(
                f"a message of the capture library has an unknown {kind.__name__}: {number}"
            ) from error

    def bytes(self) -> bytes:
        """Read bytes, preceded by their number."""
        return bytes(self._take(self.u32()))

    def text(self) -> str:
        """Read text, preceded by its number of bytes."""
        return str(self._take(self.u32()), "utf-8", "replace").rstrip("\0")

    def finish(self) -> None:
        """Check that the whole message was read."""
        if self._data:
            raise ProtocolError(f"a message of the capture library has {len(self._data)} bytes too many")


class Writer:
    """Writes one message, field by field."""

    def __init__(self) -> None:
        self.data = bytearray()

    def u32(self, value: int) -> None:
        """Write an unsigned 32-bit number."""
        self.data += value.to_bytes(4, "little")

    def u64(self, value: int) -> None:
        """Write an unsigned 64-bit number."""
        self.data += value.to_bytes(8, "little")

    def u32x3(self, value: tuple[int, int, int]) -> None:
        """Write three unsigned 32-bit numbers."""
        self.data += struct.pack("<3I", *value)

    def u64x3(self, value: tuple[int, int, int]) -> None:
        """Write three unsigned 64-bit numbers."""
        self.data += struct.pack("<3Q", *value)

    def bytes(self, value: bytes) -> None:
        """Write bytes, preceded by their number."""
        self.u32(len(value))
        self.data += value

    def text(self, value: str) -> None:
        """Write text, preceded by its number of bytes."""
        self.bytes(value.encode())
