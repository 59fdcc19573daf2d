"""Outputs that hold addresses of which each run has its own: they cannot be equal, and that is said.

A code object built again lies elsewhere, so tables of virtual functions and pointers to functions that a
kernel stores differ, however right it is. Memory from the device's heap is another at each run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.manifests.memory import MemoryKind
from kerncap_stages.replaying.variant import uses_heap
from kerncap_stages.validation.chunks import differing_chunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.codec import ReadsObjects
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.validation.arguments import Pointer

_WORD_BYTES = 8


def explain_addresses(
    store: ReadsObjects,
    capture: Capture,
    leading: Sequence[Pointer],
    expected: MemoryRef,
    actual: MemoryRef,
    window: tuple[int, int],
) -> str | None:
    """What people are told where an output differs in addresses that no rebuilt kernel can have; else None.

    leading: the kernel's arguments that are pointers. window: the part of the region, in bytes from its base.
    """
    code = [region for region in capture.regions if region.kind is MemoryKind.CODE_OBJECT]
    heap = [
        region
        for region in capture.regions
        if uses_heap(capture.kernel.slots) and _led_nowhere(region, leading)
    ]
    differing, *found = _differing_words(store, expected, actual, window, [code, heap])
    for count, what in zip(
        found,
        (
            "of functions or tables in the captured code object: a code object built again lies elsewhere",
            "of memory from the device's heap: each run is given another",
        ),
        strict=True,
    ):
        if count:
            how_many = "all" if count == differing else f"{count} of"
            return f"{how_many} {differing} words that differ hold addresses {what}"
    return None


def _led_nowhere(region: Region, leading: Sequence[Pointer]) -> bool:
    end = region.base_address + region.size_bytes
    is_device = region.kind is not MemoryKind.CODE_OBJECT and region.device_index is not None
    return is_device and not any(region.base_address <= pointer.address < end for pointer in leading)


def _differing_words(
    store: ReadsObjects,
    expected: MemoryRef,
    actual: MemoryRef,
    window: tuple[int, int],
    kinds: Sequence[Sequence[Region]],
) -> list[int]:
    """Aligned words that differ, and of them those whose expected value points into regions of each kind."""
    counts = [0] * (1 + len(kinds))
    for offset, chunks in differing_chunks(store, expected, actual):
        first = max(0, -(-(window[0] - offset) // _WORD_BYTES) * _WORD_BYTES)
        last = min(chunks[0].size, window[1] - offset) // _WORD_BYTES * _WORD_BYTES
        if first >= last:
            continue
        wanted, got = (chunk[first:last].view(np.uint64) for chunk in chunks)
        wanted = wanted[wanted != got]
        counts[0] += wanted.size
        for number, regions in enumerate(kinds, 1):
            inside = np.zeros(wanted.size, np.bool_)
            for region in regions:
                inside |= (wanted >= region.base_address) & (wanted < region.base_address + region.size_bytes)
            counts[number] += int(inside.sum())
    return counts
