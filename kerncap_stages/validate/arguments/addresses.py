"""Explains outputs that differ because they hold addresses.

A rebuilt code object is loaded elsewhere, so addresses of functions and of virtual function tables that a
kernel stores differ, even if the kernel is right. Addresses on the device's heap differ in each run. Outputs
with these addresses cannot be equal, and ``explain_addresses`` tells the user so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.manifests.memory import MemoryKind
from kerncap_stages.replay.variant import uses_heap
from kerncap_stages.store.chunks import read_differing_chunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests import ReadsObjects
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.validate.arguments.parts import Pointer

_WORD_BYTES = 8  # size of an address


def explain_addresses(
    store: ReadsObjects,
    capture: Capture,
    leading: Sequence[Pointer],
    expected: MemoryRef,
    actual: MemoryRef,
    window: tuple[int, int],
) -> str | None:
    """Return a note if an output differs in addresses that differ for any rebuilt kernel; None otherwise.

    leading: the kernel's arguments that are pointers. window: the part of the region, in bytes from its base.
    """
    code = [region for region in capture.regions if region.kind is MemoryKind.CODE_OBJECT]
    heap = [
        region
        for region in capture.regions
        if uses_heap(capture.kernel.slots) and _is_unreferenced(region, leading)
    ]
    differing, *found = _count_differing_words(store, expected, actual, window, [code, heap])
    for count, what in zip(
        found,
        (
            "of functions or tables in the captured code object: a rebuilt code object is loaded elsewhere",
            "on the device's heap: each run gets other memory",
        ),
        strict=True,
    ):
        if count:
            how_many = "all" if count == differing else f"{count} of"
            return f"{how_many} {differing} words that differ hold addresses {what}"
    return None


def _is_unreferenced(region: Region, leading: Sequence[Pointer]) -> bool:
    is_device = region.kind is not MemoryKind.CODE_OBJECT and region.device_index is not None
    return is_device and not any(region.contains(pointer.address) for pointer in leading)


def _count_differing_words(
    store: ReadsObjects,
    expected: MemoryRef,
    actual: MemoryRef,
    window: tuple[int, int],
    kinds: Sequence[Sequence[Region]],
) -> list[int]:
    """Count the aligned words that differ, and of these those that should point into each kind of region."""
    counts = [0] * (1 + len(kinds))
    for offset, chunks in read_differing_chunks(store, expected, actual):
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
                inside |= (wanted >= region.base_address) & (wanted < region.end_address)
            counts[number] += int(inside.sum())
    return counts
