"""Finds the regions that a kernel may reach by known pointers: in arguments, variables and memory."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.manifests.memory import MemoryKind
from kerncap_stages.store.chunks import read_chunk, read_chunk_list
from kerncap_stages.validate.perturb.address_ranges import AddressRanges
from kerncap_stages.validate.perturb.start import find_variable_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.store import Store
    from kerncap_stages.validate.arguments import Pointer

# Pointers are searched for in memory up to these sizes, because tables of pointers are small.
_MAX_TABLE_BYTES = 1 << 20
_MAX_SCANNED_BYTES = 64 << 20  # of all memory that is searched
_NOT_DATA = frozenset({MemoryKind.CODE_OBJECT, MemoryKind.KERNARG})


@dataclass(frozen=True)
class ReachedMemory:
    """The writable data regions, by whether known pointers lead to them.

    ``candidates``: regions that the kernel may write: first those that it changed, then those that pointers
    lead to, in its arguments, in variables of its code object, and in memory that these lead to. ``others``:
    the rest, smallest first, including those that only pointers to const lead to. ``unreached``: those of the
    others that no argument points to.
    """

    candidates: list[Region]
    others: list[Region]
    unreached: list[Region]


def find_reach(store: Store, capture: Capture, arguments: Sequence[Pointer]) -> ReachedMemory:
    """Sort the writable regions by whether known pointers lead to them."""
    usable = [region for region in capture.regions if region.pre is not None and not region.read_only]
    reached, pointed = _follow_pointers(store, capture, usable, arguments)
    further = _find_adjacent_mappings(usable, reached, pointed)
    candidates = [
        region
        for region in usable
        if region.written
        or (region.base_address in reached | further and region.kind not in _NOT_DATA)
        or find_variable_ranges(store, capture, region)
    ]
    # Only the first ones are perturbed one by one, so those that arguments lead to come before the others.
    candidates.sort(
        key=lambda region: (
            not region.written,
            region.base_address in further or region.kind is MemoryKind.CODE_OBJECT,
            region.base_address,
        )
    )
    known = {region.base_address for region in candidates}
    others = [
        region for region in usable if region.base_address not in known and region.kind not in _NOT_DATA
    ]
    others.sort(key=lambda region: (region.size_bytes, region.base_address))
    unreached = [region for region in others if region.base_address not in pointed]
    return ReachedMemory(candidates, others, unreached)


def _follow_pointers(
    store: Store, capture: Capture, usable: Sequence[Region], arguments: Sequence[Pointer]
) -> tuple[set[int], set[int]]:
    """Return base addresses of regions that arguments and variables lead to, directly or through memory.

    Second: base addresses of regions that arguments point to directly, also by pointers to const.
    """
    at = {region.base_address: region for region in usable}
    bases = sorted(at)
    ranges = AddressRanges((base, at[base].size_bytes) for base in bases)

    def find_regions(words: npt.NDArray[np.uint64]) -> set[int]:
        numbers = ranges.find_ranges(words)
        # Not np.unique: its first call imports masked arrays, which takes longer than this whole function.
        return {bases[number] for number in np.flatnonzero(np.bincount(numbers[numbers >= 0]))}

    constant = {pointer.address for pointer in arguments if pointer.is_const}
    constant -= {pointer.address for pointer in arguments if not pointer.is_const}
    words = _read_kernarg_words(capture)
    pointed = find_regions(words)
    found = find_regions(words[~np.isin(words, np.array(sorted(constant), np.uint64))])
    for variable in capture.module_variables:
        is_own = variable.code_object == capture.code_digest
        if is_own and variable.pre is not None and variable.size_bytes <= _MAX_TABLE_BYTES:
            found |= find_regions(np.concatenate(list(_read_words(store, variable.pre))))
    # The kernel does not write through a pointer to const, but memory there may hold pointers to outputs.
    waiting, seen, room = list(pointed | found), set[int](), _MAX_SCANNED_BYTES
    while waiting:
        base = waiting.pop()
        region = at[base]
        if base in seen or region.pre is None or region.size_bytes > min(_MAX_TABLE_BYTES, room):
            continue
        seen.add(base)
        room -= region.size_bytes
        for chunk in _read_words(store, region.pre):
            further = find_regions(chunk) - {base}
            found |= further
            waiting += further
    return found, pointed


def _find_adjacent_mappings(usable: Sequence[Region], reached: set[int], stops: set[int]) -> set[int]:
    """Return base addresses of mappings that follow a reached one without a gap, up to the next pointer.

    An allocator that grows by mapping more memory after its last mapping (PyTorch's expandable segments) may
    put one array into several mappings.
    """
    found: set[int] = set()
    for before, region in pairwise(sorted(usable, key=lambda region: region.base_address)):
        touches = before.end_address == region.base_address
        is_mapped = before.kind is region.kind is MemoryKind.VMEM
        goes_on = before.base_address in reached | found
        if touches and is_mapped and goes_on and region.base_address not in reached | stops:
            found.add(region.base_address)
    return found


def _read_words(store: Store, state: MemoryRef) -> Iterator[npt.NDArray[np.uint64]]:
    memory = read_chunk_list(store, state)
    yield np.empty(0, np.uint64)
    for index, digest in enumerate(memory.digests):
        if digest is not None:
            chunk = read_chunk(store, memory, index)
            yield chunk[: chunk.size // 8 * 8].view(np.uint64)


def _read_kernarg_words(capture: Capture) -> npt.NDArray[np.uint64]:
    """Return all 64-bit words at multiples of 4 in the explicit arguments: structs may hold pointers, too."""
    kernarg = bytes.fromhex(capture.kernarg)
    explicit = [slot for slot in capture.kernel.slots if not slot.is_hidden]
    end = max((slot.offset_bytes + slot.size_bytes for slot in explicit), default=len(kernarg))
    words = [int.from_bytes(kernarg[at : at + 8], "little") for at in range(0, end - 7, 4)]
    return np.array(words, np.uint64)


def split_at(regions: list[Region], limit_bytes: int) -> tuple[list[Region], list[Region]]:
    """Return the first regions, as many as together are within the limit, and the rest."""
    ends = accumulate(region.size_bytes for region in regions)
    count = sum(end <= limit_bytes for end in ends)
    return regions[:count], regions[count:]
