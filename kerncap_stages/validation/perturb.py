"""Other pre-states: they show which bytes a kernel writes even where it writes what was there before.

A kernel that already ran on the same data leaves its outputs as they are, and a variant that does nothing
would look right. So a region that the kernel is given is changed everywhere, the baseline is replayed, and
what it puts back, or makes of it, the variant must do too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.code_object import writable_data
from kerncap_stages.digest import MemoryRef
from kerncap_stages.manifests.memory import MemoryKind
from kerncap_stages.replaying.plan import own_code
from kerncap_stages.validation.chunks import read_chunk, read_chunk_list
from kerncap_stages.validation.samples import sampled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import ModuleVariable, Region
    from kerncap_stages.store import Store, Transaction
    from kerncap_stages.validation.arguments import Pointer, Span

MOST_REGIONS = 16
# Changing a region costs as much as capturing it once more: of a larger one, samples and what the kernel is
# known to write.
MOST_BYTES = 1 << 30
# Where pointers to outputs are looked for beyond the arguments: tables of pointers are small.
_MOST_TABLE_BYTES = 1 << 20
_MOST_SCANNED_BYTES = 64 << 20  # of all of them together
_NOT_DATA = frozenset({MemoryKind.CODE_OBJECT, MemoryKind.KERNARG})
_POISON = 0xA5
_SLAB_BYTES = 1 << 20  # so much of a pattern is made at a time; a multiple of every unit of one
# Flips the lowest bit of every byte: each byte changes, and finite floats stay finite unless they are large.
_NUDGE = bytes([1])
# For a comparison with bounds: an element changes by a factor of two or less, so that errors keep their size.
_GENTLE = {
    "fp64": bytes([1, 1, 1, 1, 1, 1, 0x10, 0]),
    "fp32": bytes([1, 1, 0x80, 0]),
    "fp16": bytes([1, 0x04]),
    "bf16": bytes([0x81, 0]),
}


class Change(StrEnum):
    """How a pre-state is changed."""

    POISON = "poison"  # far off, everywhere: for what is written and never read
    NUDGE = "nudge"  # a little, everywhere
    NUDGE_SAMPLES = "nudge_samples"  # a little, in some places of a large region and where it is written
    NUDGE_WRITTEN = "nudge_written"  # a little, where the kernel is known to write
    NUDGE_VARIABLES = "nudge_variables"  # a little, the variables that lie there


@dataclass(frozen=True)
class Altered:
    """One region in another state."""

    region: Region
    change: Change
    pre: MemoryRef


def candidate_regions(store: Store, capture: Capture, arguments: Sequence[Pointer]) -> list[Region]:
    """Regions that the kernel may write: those that it changed first, then those that something leads to.

    Something: its arguments, variables of its code object, and memory that these lead to. What only pointers
    to const lead to is not among them, nor what nobody may write.
    """
    usable = _usable(capture)
    reached, stops = _reached(store, capture, usable, arguments)
    further = _mapped_behind(usable, reached, stops)
    chosen = [
        region
        for region in usable
        if region.written
        or (region.base_address in reached | further and region.kind not in _NOT_DATA)
        or variable_ranges(store, capture, region)
    ]
    # There may be more than are tried, variables and mappings: what the arguments lead to goes first.
    return sorted(
        chosen,
        key=lambda region: (
            not region.written,
            region.base_address in further or region.kind is MemoryKind.CODE_OBJECT,
            region.base_address,
        ),
    )


def other_regions(capture: Capture, known: Sequence[Region]) -> list[Region]:
    """Data that the kernel could write without anything in sight that leads there, the smallest first."""
    bases = {region.base_address for region in known}
    others = [
        region
        for region in _usable(capture)
        if region.base_address not in bases and region.kind not in _NOT_DATA
    ]
    return sorted(others, key=lambda region: (region.size_bytes, region.base_address))


def variable_ranges(store: Store, capture: Capture, region: Region) -> list[tuple[int, int]]:
    """(offset, length) of the variables that the kernel's own code object has in a region and may write."""
    if region.kind is not MemoryKind.CODE_OBJECT or region.pre is None or region.read_only:
        return []
    own = own_code(capture)
    if own is None:
        # Where a code object has no place of its own, each of its variables is a region.
        return [(0, region.size_bytes) for each in _variables_at(capture, region) if not each.is_const]
    # A program may have hundreds of other code objects: ours is not read for each of their regions.
    own_end = own.load_address + own.load_size_bytes
    if not (region.base_address < own_end and own.load_address < region.base_address + region.size_bytes):
        return []
    code = store.get(capture.kernel.code_object.payload.digest)
    offsets = [
        (own.load_address + symbol.offset_bytes - region.base_address, symbol.size_bytes)
        for symbol in writable_data(code)
    ]
    return [(at, size) for at, size in offsets if at >= 0 and at + size <= region.size_bytes]


def _variables_at(capture: Capture, region: Region) -> Iterator[ModuleVariable]:
    """Variables of the kernel's own code object that are a region of their own."""
    digest = capture.kernel.code_object.payload.digest
    for variable in capture.module_variables:
        where = (variable.address, variable.size_bytes)
        if variable.code_object == digest and where == (region.base_address, region.size_bytes):
            yield variable


def _usable(capture: Capture) -> list[Region]:
    return [region for region in capture.regions if region.pre is not None and not region.read_only]


def _reached(
    store: Store, capture: Capture, usable: Sequence[Region], arguments: Sequence[Pointer]
) -> tuple[set[int], set[int]]:
    """Base addresses of regions that arguments and variables lead to, by themselves or through others.

    And of those that arguments point to at all, pointers to const among them.
    """
    at = {region.base_address: region for region in usable}
    bases = np.array(sorted(at), np.uint64)
    ends = np.array([base + at[int(base)].size_bytes for base in bases.tolist()], np.uint64)

    def regions_at(words: npt.NDArray[np.uint64]) -> set[int]:
        if not len(bases) or not len(words):
            return set()
        index = np.searchsorted(bases, words, side="right").astype(np.int64) - 1
        inside = (index >= 0) & (words < ends[np.maximum(index, 0)])
        # Not np.unique: its first call imports masked arrays, which takes longer than all of this.
        return {int(bases[i]) for i in np.flatnonzero(np.bincount(index[inside]))}

    constant = {pointer.address for pointer in arguments if pointer.is_const}
    constant -= {pointer.address for pointer in arguments if not pointer.is_const}
    words = _kernarg_words(capture)
    pointed = regions_at(words)
    found = regions_at(words[~np.isin(words, np.array(sorted(constant), np.uint64))])
    for variable in capture.module_variables:
        is_own = variable.code_object == capture.kernel.code_object.payload.digest
        if is_own and variable.pre is not None and variable.size_bytes <= _MOST_TABLE_BYTES:
            found |= regions_at(np.concatenate(list(_words_of(store, variable.pre))))
    # What lies behind a pointer to const is not written through it, but may lead to what is.
    waiting, seen, room = list(pointed | found), set[int](), _MOST_SCANNED_BYTES
    while waiting:
        base = waiting.pop()
        region = at[base]
        if base in seen or region.pre is None or region.size_bytes > min(_MOST_TABLE_BYTES, room):
            continue
        seen.add(base)
        room -= region.size_bytes
        for chunk in _words_of(store, region.pre):
            further = regions_at(chunk) - {base}
            found |= further
            waiting += further
    return found, pointed


def _mapped_behind(usable: Sequence[Region], reached: set[int], stops: set[int]) -> set[int]:
    """Base addresses of mappings that go on where a reached one ends, up to where another pointer leads.

    An allocator that grows by mapping more memory behind what it has (PyTorch's expandable segments) puts one
    array into several of them.
    """
    found: set[int] = set()
    for before, region in pairwise(sorted(usable, key=lambda region: region.base_address)):
        touches = before.base_address + before.size_bytes == region.base_address
        is_mapped = before.kind is region.kind is MemoryKind.VMEM
        goes_on = before.base_address in reached | found
        if touches and is_mapped and goes_on and region.base_address not in reached | stops:
            found.add(region.base_address)
    return found


def _words_of(store: Store, state: MemoryRef) -> Iterator[npt.NDArray[np.uint64]]:
    memory = read_chunk_list(store, state)
    yield np.empty(0, np.uint64)
    for index, digest in enumerate(memory.digests):
        if digest is not None:
            chunk = read_chunk(store, memory, index)
            yield chunk[: chunk.size // 8 * 8].view(np.uint64)


def _kernarg_words(capture: Capture) -> npt.NDArray[np.uint64]:
    """Every aligned word of the explicit arguments: structs by value hold pointers too."""
    kernarg = bytes.fromhex(capture.kernarg)
    explicit = [slot for slot in capture.kernel.slots if not slot.is_hidden]
    end = max((slot.offset_bytes + slot.size_bytes for slot in explicit), default=len(kernarg))
    words = [int.from_bytes(kernarg[at : at + 8], "little") for at in range(0, end - 7, 4)]
    return np.array(words, np.uint64)


def altered(
    store: Store,
    transaction: Transaction,
    region: Region,
    change: Change,
    parts: Sequence[Span],
    variables: Sequence[tuple[int, int]] = (),
) -> MemoryRef:
    """Stage a changed pre-state of a region; ``parts`` say what its elements are, as far as bounds matter.

    variables: (offset, length) of each, where those are what is changed.
    """
    if region.pre is None:
        raise ValueError("the region has no pre-state")
    if change in (Change.POISON, Change.NUDGE):
        return _altered_everywhere(store, transaction, region.pre, change, parts)
    memory = read_chunk_list(store, region.pre)
    writer = transaction.memory_writer(memory.size_bytes)
    ranges = variables if change is Change.NUDGE_VARIABLES else region.written or ()
    if change is Change.NUDGE_SAMPLES:
        ranges = sampled(region.size_bytes, ranges)
    for index in range(len(memory.digests)):
        start = index * memory.chunk_size_bytes
        end = start + memory.length(index)
        touched = [
            (max(offset, start), min(offset + length, end))
            for offset, length in ranges
            if offset < end and offset + length > start
        ]
        if not touched:
            writer.append_same(end - start, [memory.digests[index]])
            continue
        chunk = read_chunk(store, memory, index).copy()
        for part in parts:
            for first, last in touched:
                low, high = max(first, part.start), min(last, part.end)
                if low < high:
                    chunk[low - start : high - start] ^= _pattern(part, change, low, high)
        writer.append(chunk)
    return MemoryRef.to(writer.finish())


def _altered_everywhere(
    store: Store, transaction: Transaction, pre: MemoryRef, change: Change, parts: Sequence[Span]
) -> MemoryRef:
    """As one piece, at most MOST_BYTES: it is read and hashed on all cores, where chunks come one by one."""
    content = store.read_memory(pre.digest)
    for part in parts:
        pattern = _pattern(part, change, part.start, part.start + _SLAB_BYTES)  # the same in every slab
        for low in range(part.start, min(part.end, content.size), _SLAB_BYTES):
            high = min(low + _SLAB_BYTES, part.end, content.size)
            content[low:high] ^= pattern[: high - low]
    return MemoryRef.to(transaction.put_memory(content))


def _pattern(part: Span, change: Change, low: int, high: int) -> npt.NDArray[np.uint8]:
    if change is Change.POISON:
        return np.full(high - low, _POISON, np.uint8)
    unit = np.frombuffer(_GENTLE.get(part.element_type or "", _NUDGE), np.uint8)
    turned = np.roll(unit, -((low - part.start) % unit.size))
    # np.resize would concatenate as many arrays as there are elements: 100 ms a chunk.
    return np.tile(turned, -(-(high - low) // turned.size))[: high - low]


def with_pre_state(capture: Capture, region: Region, pre: MemoryRef) -> Capture:
    """The same capture, starting from another state of one region; a variable that lies there has it too."""
    same = {variable.symbol for variable in _variables_at(capture, region)}
    variables = tuple(
        each.model_copy(update={"pre": pre}) if each.symbol in same else each
        for each in capture.module_variables
    )
    regions = tuple(
        each.model_copy(update={"pre": pre}) if each.base_address == region.base_address else each
        for each in capture.regions
    )
    return capture.model_copy(update={"regions": regions, "module_variables": variables})
