"""Exchanges addresses in a table: a variant may compute them from the first one, or know the captured ones.

Only addresses of floats that the kernel does not write are exchanged, and only where any of them may stand in
the place of another: at equal distances in one region, or at one offset in regions of one size. An exchange
then never makes two work-items write one place, or one read what another writes.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.manifests.memory import MemoryKind
from kerncap_stages.store.chunks import read_chunk, read_chunk_list
from kerncap_stages.validate.perturb.address_ranges import AddressRanges
from kerncap_stages.validate.perturb.guessed_types import guess_float

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.store import Store

    Words = npt.NDArray[np.uint64]

_MAX_ADDRESSES = 1 << 12
_MAX_LOOKED_AT = 8
_NOT_DATA = frozenset({MemoryKind.CODE_OBJECT, MemoryKind.KERNARG})


def exchange_addresses(
    store: Store, capture: Capture, table: Region, words: Words, generator: np.random.Generator
) -> None:
    """Exchange addresses among the words of a region in place. Equal ones stay equal."""
    targets = sorted(
        (region for region in capture.regions if _is_only_read(region) and region != table),
        key=lambda region: region.base_address,
    )
    ranges = AddressRanges((region.base_address, region.size_bytes) for region in targets)
    numbers = ranges.find_ranges(words)
    places = np.flatnonzero(numbers >= 0)
    if not 2 <= places.size <= _MAX_ADDRESSES:
        return
    inside: dict[int, set[int]] = {}
    for place in places:
        inside.setdefault(int(numbers[place]), set()).add(int(words[place]))
    before = words.copy()
    for group in _find_groups({number: sorted(found) for number, found in inside.items()}, targets):
        if _hold_floats(store, [(targets[number], address) for number, address in group]):
            addresses = [address for _, address in group]
            for old, new in zip(addresses, _move(addresses, generator), strict=True):
                words[before == np.uint64(old)] = new


def _is_only_read(region: Region) -> bool:
    return region.pre is not None and not region.written and region.kind not in _NOT_DATA


def _find_groups(inside: dict[int, list[int]], targets: list[Region]) -> Iterator[list[tuple[int, int]]]:
    """Yield groups of addresses, each with its region's number, of which each may stand for any other.

    inside: the addresses in each region, ascending.
    """
    alone: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for number, addresses in inside.items():
        region = targets[number]
        if len(addresses) == 1:
            where = (region.size_bytes, addresses[0] - region.base_address)
            alone.setdefault(where, []).append((number, addresses[0]))
            continue
        distances = {after - before for before, after in pairwise(addresses)}
        if len(distances) == 1:
            # The last one may have less room than the others.
            last = addresses[-1] + distances.pop()
            whole = addresses if last <= region.end_address else addresses[:-1]
            yield [(number, address) for address in whole]
    yield from alone.values()


def _hold_floats(store: Store, group: list[tuple[Region, int]]) -> bool:
    """Whether floats of one type lie at all these addresses. Integers may be indices into something else."""
    kinds = set()
    for region, address in group[:: 1 + len(group) // _MAX_LOOKED_AT]:
        if region.pre is None:
            return False
        memory, offset = read_chunk_list(store, region.pre), address - region.base_address
        index = offset // memory.chunk_size_bytes
        kinds.add(guess_float(read_chunk(store, memory, index)[offset - index * memory.chunk_size_bytes :]))
    return len(kinds) == 1 and None not in kinds


def _move(addresses: list[int], generator: np.random.Generator) -> list[int]:
    """Return the addresses in another order, unless there is only one."""
    moved = addresses
    while moved == addresses and len(addresses) > 1:
        moved = [addresses[place] for place in generator.permutation(len(addresses))]
    return moved
