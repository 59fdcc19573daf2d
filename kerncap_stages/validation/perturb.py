"""Other pre-states: they show which bytes a kernel writes even where it writes what was there before.

A kernel that already ran on the same data leaves its outputs as they are, and a variant that does nothing
would look right. So a region that the kernel is given is changed everywhere, the baseline is replayed, and
what it puts back, or makes of it, the variant must do too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.digest import MemoryRef
from kerncap_stages.validation.chunks import read_chunk, read_chunk_list

if TYPE_CHECKING:
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.store import Store, Transaction

# Flips the lowest bit of every byte: each element changes, and a finite float stays finite unless it is among
# the largest, as the lowest bit of its highest byte is not the whole exponent.
_FLIP = 0x01
MOST_REGIONS = 16


def candidate_regions(capture: Capture) -> list[Region]:
    """Regions that the kernel is given directly or that it changed, the changed ones first."""
    given = _given_regions(capture)
    usable = [region for region in capture.regions if region.pre is not None and not region.read_only]
    chosen = [region for region in usable if region.written or region.base_address in given]
    return sorted(chosen, key=lambda region: (not region.written, region.base_address))


def _given_regions(capture: Capture) -> set[int]:
    kernarg = bytes.fromhex(capture.kernarg)
    explicit = [slot for slot in capture.kernel.slots if not slot.is_hidden]
    end = max((slot.offset_bytes + slot.size_bytes for slot in explicit), default=len(kernarg))
    given: set[int] = set()
    for offset in range(0, end - 7, 4):
        value = int.from_bytes(kernarg[offset : offset + 8], "little")
        for region in capture.regions:
            if region.base_address <= value < region.base_address + region.size_bytes:
                given.add(region.base_address)
    return given


def perturbed(store: Store, transaction: Transaction, region: Region, *, whole: bool) -> MemoryRef:
    """Stage a changed pre-state of a region: every byte of it, or only those that the kernel wrote."""
    if region.pre is None:
        raise ValueError("the region has no pre-state")
    memory = read_chunk_list(store, region.pre)
    writer = transaction.memory_writer(memory.size_bytes)
    ranges = [(0, region.size_bytes)] if whole else list(region.written or ())
    for index in range(len(memory.digests)):
        chunk = read_chunk(store, memory, index).copy()
        start = index * memory.chunk_size_bytes
        for offset, length in ranges:
            low, high = max(offset - start, 0), min(offset + length - start, chunk.size)
            if low < high:
                chunk[low:high] ^= _FLIP
        writer.append(chunk)
    return MemoryRef.to(writer.finish())


def with_pre_state(capture: Capture, region: Region, pre: MemoryRef) -> Capture:
    """The same capture, starting from another state of one region; it has no golden state."""
    regions = tuple(
        each.model_copy(update={"pre": pre}) if each.base_address == region.base_address else each
        for each in capture.regions
    )
    return capture.model_copy(update={"regions": regions})
