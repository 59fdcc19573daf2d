"""The memory that one process of the program shares with the collector.

It holds a page of counters, a ring of dispatch records, and staging slots;
``native/capture/protocol/protocol.toml`` declares the layout. It is a memfd: no other process can open it,
and the system frees it with its last user.
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
        try:
            os.ftruncate(self.fd, total)
        except OSError as error:
            os.close(self.fd)
            raise OSError(
                error.errno, error.strerror, f"{total:,} bytes of memory shared with the program"
            ) from error
        # Sealed, so that the program cannot shrink the file: access past its end would kill this process.
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        self._map = mmap.mmap(self.fd, total)
        # NumPy reads and writes each field, an aligned word of 8 bytes, in one access.
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
        """Unmap the memory. All views of slots must have been released."""
        del self._control, self._records
        self._map.close()
        os.close(self.fd)

    def view_slot(self, index: int, size_bytes: int) -> memoryview:
        """Return a view of the first ``size_bytes`` of a staging slot."""
        begin = self._slots_offset + index * self.slot_bytes
        return memoryview(self._map)[begin : begin + size_bytes]

    def _read_of_rule(self, name: str, rule: int) -> int:
        if not 0 <= rule < MAX_RULES:
            raise IndexError(rule)
        return int(self._control[name][0, rule])

    def _read_counter(self, name: str) -> int:
        return int(self._control[name][0])

    def take_records(self) -> npt.NDArray[np.void]:
        """Remove the dispatch records from the ring, and return them."""
        head, tail = self._read_counter("record_head"), self._read_counter("record_tail")
        # The program can write any number there, so the count is limited to the ring's capacity.
        count = min(max(0, head - tail), RECORD_CAPACITY)
        places = np.arange(tail, tail + count) % RECORD_CAPACITY
        taken = self._records[places]
        self._control["record_tail"] = tail + count
        return taken

    @property
    def dispatches(self) -> int:
        """Number of dispatches that the process made."""
        return self._read_counter("dispatches")

    @property
    def untimed(self) -> int:
        """Number of dispatches without a time."""
        return self._read_counter("untimed")

    @property
    def uninterceptable_queues(self) -> int:
        """Number of queues that the runtime did not let the capture library intercept."""
        return self._read_counter("uninterceptable_queues")

    @property
    def unlisted(self) -> int:
        """Number of dispatches of kernels that no loaded code object lists; counted only under capture."""
        return self._read_counter("unlisted")

    @property
    def lost(self) -> bool:
        """Whether the capture library found that the program closed its socket."""
        return bool(self._read_counter("lost"))

    def count_matched(self, rule: int) -> int:
        """Return how many dispatches a rule matched, captured or not."""
        return self._read_of_rule("matched", rule)

    def count_replaced(self, rule: int) -> int:
        """Return in how many dispatches of a rule's kernel a variant ran."""
        return self._read_of_rule("replaced", rule)

    def count_kept(self, rule: int) -> int:
        """Return how many dispatches of a replaced kernel had a launch that the variant is not for."""
        return self._read_of_rule("kept", rule)

    def count_trials(self, rule: int) -> int:
        """Return how many of an autotuner's trials a rule would have matched."""
        return self._read_of_rule("trials", rule)

    def read_other_shape(self, rule: int) -> tuple[Dim3, Dim3] | None:
        """Return the grid, in work-groups, and block of the latest dispatch that a rule left out."""
        grid = self._read_of_rule("other_grid", rule)
        block = self._read_of_rule("other_block", rule)
        if not grid:
            return None
        blocks = (grid & 0xFFFFFFFF, grid >> 32 & 0xFFFF, grid >> 48)
        return blocks, (block & 0xFFFF, block >> 16 & 0xFFFF, block >> 32 & 0xFFFF)
