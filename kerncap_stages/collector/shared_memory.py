"""The memory that one process of the program shares with the collector.

A page of counters, a ring of dispatch records, and staging slots: ``native/capture/protocol.hpp`` has the
layout. It is a memfd: nobody else can find it, and it is gone with its last user, however that one ends.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.collector.protocol import MAGIC, MAX_RULES, VERSION

if TYPE_CHECKING:
    import numpy.typing as npt

    from kerncap_stages.manifests.base import Dim3

PAGE_BYTES = 4096
RECORD_CAPACITY = 1 << 16

RECORD = np.dtype(
    [
        ("kernel", "<u4"),
        ("device", "<u4"),
        ("queue", "<u4"),
        ("group_bytes", "<u4"),
        ("grid", "<u8", 3),
        ("block", "<u2", 4),
        ("private_bytes", "<u4"),
        ("reserved", "<u4"),
        ("index", "<u8"),
        ("start_ns", "<u8"),
        ("end_ns", "<u8"),
    ]
)
_HEAD, _TAIL, _DISPATCHES, _UNTIMED, _QUEUES, _UNINTERCEPTABLE, _UNLISTED, _LOST = (8, 16, *range(24, 30))
_MATCHED = 32  # words for each rule, from here
_OTHER_GRID = _MATCHED + MAX_RULES
_OTHER_BLOCK = _OTHER_GRID + MAX_RULES


class SharedMemory:
    """Owns the memfd and its mapping."""

    def __init__(self, slot_count: int, slot_bytes: int) -> None:
        self.slot_count = slot_count
        self.slot_bytes = slot_bytes
        records_bytes = RECORD_CAPACITY * RECORD.itemsize
        self._slots_offset = PAGE_BYTES + records_bytes
        total = self._slots_offset + slot_count * slot_bytes
        self.fd = os.memfd_create("kerncap", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, total)
        # The program cannot take memory from under us: a shrunken file would end this process.
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        self._map = mmap.mmap(self.fd, total)
        head = struct.pack(
            "<QIIQQQQ", MAGIC, VERSION, slot_count, slot_bytes, PAGE_BYTES, self._slots_offset, total
        )
        self._map[: len(head)] = head
        # Aligned 8-byte words: NumPy reads and writes each in one go.
        self._words = np.frombuffer(self._map, dtype="<u8", count=PAGE_BYTES // 8)
        self._records = np.frombuffer(self._map, dtype=RECORD, count=RECORD_CAPACITY, offset=PAGE_BYTES)

    def close(self) -> None:
        """Give the memory back; views that were handed out must be gone."""
        del self._words, self._records
        self._map.close()
        os.close(self.fd)

    def slot(self, index: int, size_bytes: int) -> memoryview:
        """Return the first bytes of a staging slot."""
        begin = self._slots_offset + index * self.slot_bytes
        return memoryview(self._map)[begin : begin + size_bytes]

    def take_records(self) -> npt.NDArray[np.void]:
        """Return and remove the dispatch records that are there."""
        head, tail = int(self._words[_HEAD]), int(self._words[_TAIL])
        # The program can write anything there: never more than the ring holds.
        count = min(max(0, head - tail), RECORD_CAPACITY)
        places = np.arange(tail, tail + count) % RECORD_CAPACITY
        taken = self._records[places]
        self._words[_TAIL] = tail + count
        return taken

    @property
    def dispatches(self) -> int:
        """How many dispatches the process made."""
        return int(self._words[_DISPATCHES])

    @property
    def untimed(self) -> int:
        """How many of them have no time."""
        return int(self._words[_UNTIMED])

    @property
    def uninterceptable_queues(self) -> int:
        """Queues that the runtime would not let us see."""
        return int(self._words[_UNINTERCEPTABLE])

    @property
    def unlisted(self) -> int:
        """Dispatches of kernels that no loaded code object lists; counted under capture."""
        return int(self._words[_UNLISTED])

    @property
    def lost(self) -> bool:
        """The capture library found its socket closed by the program."""
        return bool(self._words[_LOST])

    def matched(self, rule: int) -> int:
        """How many dispatches a rule saw, taken or not."""
        if not 0 <= rule < MAX_RULES:
            raise IndexError(rule)
        return int(self._words[_MATCHED + rule])

    def other_shape(self, rule: int) -> tuple[Dim3, Dim3] | None:
        """The latest grid, in work-groups, and block for which a rule left a dispatch out, if it did."""
        if not 0 <= rule < MAX_RULES:
            raise IndexError(rule)
        grid, block = int(self._words[_OTHER_GRID + rule]), int(self._words[_OTHER_BLOCK + rule])
        if not grid:
            return None
        blocks = (grid & 0xFFFFFFFF, grid >> 32 & 0xFFFF, grid >> 48)
        return blocks, (block & 0xFFFF, block >> 16 & 0xFFFF, block >> 32 & 0xFFFF)
