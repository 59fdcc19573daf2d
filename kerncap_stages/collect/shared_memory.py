"""The memory that one process of the program shares with the collector.

A page of counters, a ring of dispatch records, and staging slots: the layout is declared in
``native/capture/protocol/protocol.toml``. It is a memfd: nobody else can find it, and it is gone with its
last user, however that one ends.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.collect.protocol import (
    CONTROL,
    MAGIC,
    MAX_RULES,
    PAGE_BYTES,
    RECORD,
    RECORD_CAPACITY,
    VERSION,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from kerncap_stages.manifests.base import Dim3


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
        # NumPy reads and writes each field, an aligned word of 8 bytes, in one go.
        self._control = np.frombuffer(self._map, dtype=CONTROL, count=1)
        self._control["magic"] = MAGIC
        self._control["version"] = VERSION
        self._control["slot_count"] = slot_count
        self._control["slot_bytes"] = slot_bytes
        self._control["records_offset"] = PAGE_BYTES
        self._control["slots_offset"] = self._slots_offset
        self._control["total_bytes"] = total
        self._records = np.frombuffer(self._map, dtype=RECORD, count=RECORD_CAPACITY, offset=PAGE_BYTES)

    def close(self) -> None:
        """Give the memory back; views that were handed out must be gone."""
        del self._control, self._records
        self._map.close()
        os.close(self.fd)

    def slot(self, index: int, size_bytes: int) -> memoryview:
        """Return the first bytes of a staging slot."""
        begin = self._slots_offset + index * self.slot_bytes
        return memoryview(self._map)[begin : begin + size_bytes]

    def _counter(self, name: str) -> int:
        return int(self._control[name][0])

    def take_records(self) -> npt.NDArray[np.void]:
        """Return and remove the dispatch records that are there."""
        head, tail = self._counter("record_head"), self._counter("record_tail")
        # The program can write anything there: never more than the ring holds.
        count = min(max(0, head - tail), RECORD_CAPACITY)
        places = np.arange(tail, tail + count) % RECORD_CAPACITY
        taken = self._records[places]
        self._control["record_tail"] = tail + count
        return taken

    @property
    def dispatches(self) -> int:
        """How many dispatches the process made."""
        return self._counter("dispatches")

    @property
    def untimed(self) -> int:
        """How many of them have no time."""
        return self._counter("untimed")

    @property
    def uninterceptable_queues(self) -> int:
        """Queues that the runtime would not let us see."""
        return self._counter("uninterceptable_queues")

    @property
    def unlisted(self) -> int:
        """Dispatches of kernels that no loaded code object lists; counted under capture."""
        return self._counter("unlisted")

    @property
    def lost(self) -> bool:
        """The capture library found its socket closed by the program."""
        return bool(self._counter("lost"))

    def matched(self, rule: int) -> int:
        """How many dispatches a rule saw, taken or not."""
        if not 0 <= rule < MAX_RULES:
            raise IndexError(rule)
        return int(self._control["matched"][0, rule])

    def other_shape(self, rule: int) -> tuple[Dim3, Dim3] | None:
        """The latest grid, in work-groups, and block for which a rule left a dispatch out, if it did."""
        if not 0 <= rule < MAX_RULES:
            raise IndexError(rule)
        grid = int(self._control["other_grid"][0, rule])
        block = int(self._control["other_block"][0, rule])
        if not grid:
            return None
        blocks = (grid & 0xFFFFFFFF, grid >> 32 & 0xFFFF, grid >> 48)
        return blocks, (block & 0xFFFF, block >> 16 & 0xFFFF, block >> 32 & 0xFFFF)
