"""Which regions a kernel may reach, as far as anything in sight leads there: arguments, variables, memory."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.manifests.memory import MemoryKind
from kerncap_stages.store.chunks import read_chunk, read_chunk_list
from kerncap_stages.validate.perturb.address_ranges import AddressRanges
from kerncap_stages.validate.perturb.start import variable_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.store import Store
    from kerncap_stages.validate.arguments import Pointer

# Where pointers to outputs are looked for beyond the arguments: tables of pointers are small.
_MOST_TABLE_BYTES = 1 << 20
_MOST_SCANNED_BYTES = 64 << 20  # of all of them together
_NOT_DATA = frozenset({MemoryKind.CODE_OBJECT, MemoryKind.KERNARG})


@dataclass(frozen=True)
class Reach:
    """The data regions that anybody may write, by what leads there.

    ``candidates``: what the kernel may write: regions that it changed first, then those that its arguments,
    variables of its code object, and memory that these lead to point to. ``others``: the rest, the smallest
    first; among them what only pointers to const lead to. ``unreached``: of these, what nothing leads to.
    """

    candidates: list[Region]
    others: list[Region]
    unreached: list[Region]


def find_reach(store: Store, capture: Capture, arguments: Sequence[Pointer]) -> Reach:
    """Find what leads where."""
    usable = [region for region in capture.regions if region.pre is not None and not region.read_only]
    reached, pointed = _reached(store, capture, usable, arguments)
    further = _mapped_behind(usable, reached, pointed)
    candidates = [
        region
        for region in usable
        if region.written
        or (region.base_address in reached | further and region.kind not in _NOT_DATA)
        or variable_ranges(store, capture, region)
    ]
    # There may be more than are tried, variables and mappings: what the arguments lead to goes first.
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
    return Reach(candidates, others, unreached)


def _reached(
    store: Store, capture: Capture, usable: Sequence[Region], arguments: Sequence[Pointer]
) -> tuple[set[int], set[int]]:
    """Base addresses of regions that arguments and variables lead to, by themselves or through others.

    And of those that arguments point to at all, pointers to const among them.
    """
    at = {region.base_address: region for region in usable}
    bases = sorted(at)
    ranges = AddressRanges((base, at[base].size_bytes) for base in bases)

    def regions_at(words: npt.NDArray[np.uint64]) -> set[int]:
        numbers = ranges.numbers(words)
        # Not np.unique: its first call imports masked arrays, which takes longer than all of this.
        return {bases[number] for number in np.flatnonzero(np.bincount(numbers[numbers >= 0]))}

    constant = {pointer.address for pointer in arguments if pointer.is_const}
    constant -= {pointer.address for pointer in arguments if not pointer.is_const}
    words = _kernarg_words(capture)
    pointed = regions_at(words)
    found = regions_at(words[~np.isin(words, np.array(sorted(constant), np.uint64))])
    for variable in capture.module_variables:
        is_own = variable.code_object == capture.code_digest
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
        touches = before.end_address == region.base_address
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
