"""Reads what the arguments of a captured dispatch hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.kernel import KernargSlot

ADDRESS_BYTES = 8


def read_value(capture: Capture, slot: KernargSlot) -> bytes:
    """Return the bytes of an argument."""
    start = slot.offset_bytes
    return bytes.fromhex(capture.kernarg[2 * start : 2 * (start + slot.size_bytes)])


def read_address(value: bytes, offset: int = 0) -> int:
    """Return the address that an argument holds at an offset in bytes."""
    return int.from_bytes(value[offset : offset + ADDRESS_BYTES], "little")
