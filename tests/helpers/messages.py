"""Messages of a capture library with nothing in them but what a test is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kerncap_stages.collect import protocol


def capture_message(**changes: Any) -> protocol.Capture:
    """The begin of a capture: one block of 64 work-items of kernel 1 of module 1."""
    plain = protocol.Capture(
        capture=0,
        rule=0,
        kernel=1,
        module=1,
        device=0,
        queue=0,
        index_in_process=0,
        index_of_kernel=0,
        grid_work_items=(64, 1, 1),
        block_work_items=(64, 1, 1),
        group_bytes=0,
        private_bytes=0,
        kernarg_address=0,
        flags=0,
        kernarg=b"",
        packet=b"",
    )
    return replace(plain, **changes)


def region_message(**changes: Any) -> protocol.Region:
    """The first region of a capture: 4,096 bytes of device memory."""
    plain = protocol.Region(
        index=0,
        kind=protocol.MemoryKind.DEVICE_COARSE,
        device=0,
        flags=0,
        base=0x2000,
        size_bytes=4096,
        access=1,
        host=0,
        align=4096,
        piece=0,
        module=0,
    )
    return replace(plain, **changes)
