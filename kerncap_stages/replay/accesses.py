"""Asks the software GPU how much of the captured memory dispatches read and write.

It reads a file of ranges: ``native/softgpu/device/access_log.hpp`` has its grammar. With each count of
instructions it then tells the bytes of each range that the dispatch read, before it wrote them, and wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.manifests.memory import MemoryKind
from kerncap_stages.manifests.timing import Work
from kerncap_stages.replay.variant import find_runtime_regions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kerncap_stages.machine.instruction_counts import DispatchCount
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region

VARIABLE = "KERNCAP_SOFTGPU_ACCESSES"
# Classes of instructions that access memory outside of a compute unit; of scratch memory, too.
_MEMORY_CLASSES = ("smem", "vmem_load", "vmem_store", "vmem_atomic")


@dataclass(frozen=True)
class Watched:
    """Ranges of memory, ascending and disjoint, as their first addresses and those behind their ends.

    every: record each dispatch; otherwise only the first one of each kernel. writes_only: not what is read.
    """

    ranges: Sequence[tuple[int, int]]
    every: bool = False
    writes_only: bool = False

    def write(self, path: Path) -> None:
        """Write the file that the software GPU reads."""
        which, what = ("all" if self.every else "first"), ("writes" if self.writes_only else "accesses")
        lines = [f"{which} {what}", *(f"{begin} {end}" for begin, end in self.ranges)]
        path.write_text("".join(f"{line}\n" for line in lines))


def find_data_regions(capture: Capture) -> Iterator[Region]:
    """Yield the regions that hold the program's data: no code, no arguments, no memory of the runtime."""
    of_runtime = find_runtime_regions(capture)
    for region in capture.regions:
        is_data = region.kind not in (MemoryKind.CODE_OBJECT, MemoryKind.KERNARG)
        if is_data and region.pre is not None and region.base_address not in of_runtime:
            yield region


def watch_data(capture: Capture) -> Watched:
    """Return what to record for the work of one dispatch of each kernel."""
    return Watched([(region.base_address, region.end_address) for region in find_data_regions(capture)])


def find_work(count: DispatchCount) -> Work | None:
    """Return what a dispatch did; None if it was not recorded."""
    if count.accesses is None:
        return None
    return Work(
        memory_instructions=sum(count.by_class.get(name, 0) for name in _MEMORY_CLASSES),
        read_size_bytes=sum(read for read, _ in count.accesses),
        written_size_bytes=sum(written for _, written in count.accesses),
    )


def find_writes(count: DispatchCount) -> frozenset[int] | None:
    """Return the numbers of the ranges that a dispatch wrote; None if it was not recorded."""
    if count.accesses is None:
        return None
    return frozenset(number for number, (_, written) in enumerate(count.accesses) if written)
