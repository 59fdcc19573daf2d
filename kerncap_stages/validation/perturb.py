"""Other pre-states: they show which bytes a kernel writes even where it writes what was there before.

A kernel that already ran on the same data leaves its outputs as they are, and a variant that does nothing
would look right. So a region that the kernel is given is changed everywhere, the baseline is replayed, and
what it puts back, or makes of it, the variant must do too.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.code_object import writable_data
from kerncap_stages.digest import MemoryRef
from kerncap_stages.manifests.memory import MemoryKind
from kerncap_stages.replaying.plan import own_code
from kerncap_stages.validation.address_ranges import null_words
from kerncap_stages.validation.chunks import read_chunk, read_chunk_list
from kerncap_stages.validation.samples import sampled
from kerncap_stages.validation.zeros import Golden, lifted_zeros

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import ModuleVariable, Region
    from kerncap_stages.store import Store, Transaction
    from kerncap_stages.validation.address_ranges import AddressRanges
    from kerncap_stages.validation.arguments import Span

MOST_REGIONS = 16
# Changing a region costs as much as capturing it once more: of a larger one, samples and what the kernel is
# known to write.
MOST_BYTES = 1 << 30
_POISON = bytes([0xA5])
_SLAB_BYTES = 1 << 20  # so much of a pattern is made at a time; a multiple of every unit of one
# Flips the lowest bit of every byte: each byte changes, and finite floats stay finite unless they are large.
_NUDGE = bytes([1])
# An element changes by a factor of two or less: errors keep their size, which a comparison with bounds needs.
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
    NUDGE_GENTLY = "nudge_gently"  # the same with numbers that keep their size
    NUDGE_SAMPLES = "nudge_samples"  # a little, in some places of a large region and where it is written
    NUDGE_WRITTEN = "nudge_written"  # a little, where the kernel is known to write
    NUDGE_VARIABLES = "nudge_variables"  # a little, the variables that lie there
    # The same but for addresses of captured memory: a kernel that follows them does not run on others.
    NUDGE_NUMBERS = "nudge_numbers"
    NUDGE_VARIABLE_NUMBERS = "nudge_variable_numbers"
    # And but for zeros where addresses may be: lists end there.
    NUDGE_NONZERO = "nudge_nonzero"
    NUDGE_VARIABLE_NONZERO = "nudge_variable_nonzero"


EVERYWHERE = frozenset({Change.POISON, Change.NUDGE, Change.NUDGE_GENTLY, Change.NUDGE_VARIABLES})
OF_VARIABLES = frozenset(
    {Change.NUDGE_VARIABLES, Change.NUDGE_VARIABLE_NUMBERS, Change.NUDGE_VARIABLE_NONZERO}
)
OF_REGIONS = frozenset(
    {Change.POISON, Change.NUDGE, Change.NUDGE_GENTLY, Change.NUDGE_NUMBERS, Change.NUDGE_NONZERO}
)
# Changes by a little, of a region or of variables; each of these spares more than the one before.
LITTLE = (
    (Change.NUDGE, Change.NUDGE_VARIABLES),
    (Change.NUDGE_NUMBERS, Change.NUDGE_VARIABLE_NUMBERS),
    (Change.NUDGE_NONZERO, Change.NUDGE_VARIABLE_NONZERO),
)


@dataclass(frozen=True)
class Altered:
    """One region in another state."""

    region: Region
    change: Change
    pre: MemoryRef


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


def altered(
    store: Store,
    transaction: Transaction,
    region: Region,
    change: Change,
    parts: Sequence[Span],
    variables: Sequence[tuple[int, int]] = (),
    ranges: AddressRanges | None = None,
    *,
    gently: bool = False,
) -> MemoryRef:
    """Stage a changed pre-state of a region; ``parts`` say what its elements are.

    variables: (offset, length) of each, where those are what is changed. ranges: what addresses lead to.
    gently: numbers keep their size, whatever the change; not so if it is far off.
    """
    if region.pre is None:
        raise ValueError("the region has no pre-state")
    golden = Golden(store, region)
    units = [
        _POISON if change is Change.POISON else nudge_unit(part, change, gently=gently) for part in parts
    ]
    if change in OF_REGIONS:
        return _altered_everywhere(
            store, transaction, region.pre, change, list(zip(parts, units, strict=True)), ranges, golden.all
        )
    memory = read_chunk_list(store, region.pre)
    writer = transaction.memory_writer(memory.size_bytes)
    places = variables if change in OF_VARIABLES else region.written or ()
    if change is Change.NUDGE_SAMPLES:
        places = sampled(region.size_bytes, places)
    for index in range(len(memory.digests)):
        start = index * memory.chunk_size_bytes
        end = start + memory.length(index)
        touched = [
            (max(offset, start), min(offset + length, end))
            for offset, length in places
            if offset < end and offset + length > start
        ]
        if not touched:
            writer.append_same(end - start, [memory.digests[index]])
            continue
        chunk, after = read_chunk(store, memory, index).copy(), golden.of_chunk(index)
        with _spared(chunk, change, ranges):
            for part, unit in zip(parts, units, strict=True):
                for first, last in touched:
                    low, high = max(first, part.start), min(last, part.end)
                    if low < high:
                        pattern = _pattern(part, unit, low, high)
                        _flip(chunk[low - start : high - start], low, part, pattern, after)
        writer.append(chunk)
    return MemoryRef.to(writer.finish())


@contextmanager
def _spared(content: npt.NDArray[np.uint8], change: Change, ranges: AddressRanges | None) -> Iterator[None]:
    """Put the words back that a change spares, when the content was changed."""
    _, but_addresses, and_zeros = LITTLE
    if ranges is None or change not in (*but_addresses, *and_zeros):
        yield
        return
    words = content[: content.size // 8 * 8].view(np.uint64)
    numbers = ranges.words_in(words)
    if change in and_zeros:
        numbers = np.concatenate([numbers, null_words(words, numbers)])
    before = words[numbers]
    yield
    words[numbers] = before


def _altered_everywhere(
    store: Store,
    transaction: Transaction,
    pre: MemoryRef,
    change: Change,
    parts: Sequence[tuple[Span, bytes]],
    ranges: AddressRanges | None,
    golden: Callable[[int, int], npt.NDArray[np.uint8]],
) -> MemoryRef:
    """As one piece, at most MOST_BYTES: it is read and hashed on all cores, where chunks come one by one."""
    content = store.read_memory(pre.digest)
    with _spared(content, change, ranges):
        for part, unit in parts:
            pattern = _pattern(part, unit, part.start, part.start + _SLAB_BYTES)  # the same in every slab
            for low in range(part.start, min(part.end, content.size), _SLAB_BYTES):
                high = min(low + _SLAB_BYTES, part.end, content.size)
                _flip(content[low:high], low, part, pattern[: high - low], golden)
    return MemoryRef.to(transaction.put_memory(content))


def _flip(
    content: npt.NDArray[np.uint8],
    start: int,
    part: Span,
    pattern: npt.NDArray[np.uint8],
    golden: Callable[[int, int], npt.NDArray[np.uint8]],
) -> None:
    with lifted_zeros(content, start, part, golden):
        content ^= pattern


def nudge_unit(part: Span, change: Change, *, gently: bool) -> bytes:
    """Which bits of an element a change by a little flips; ``gently``: numbers keep their size."""
    if gently or change is Change.NUDGE_GENTLY:
        return _GENTLE.get(part.element_type or "", _NUDGE)
    return _NUDGE


def _pattern(part: Span, flipped: bytes, low: int, high: int) -> npt.NDArray[np.uint8]:
    unit = np.frombuffer(flipped, np.uint8)
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
