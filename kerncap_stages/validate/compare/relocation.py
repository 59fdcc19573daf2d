"""What a variant wrote of its own addresses, as the captured code object's that mean the same.

A code object built again lies elsewhere, and so do functions and tables in it. Where a kernel stores their
addresses (tables of virtual functions, pointers to functions), the same program leaves other bytes. Both code
objects name what they hold, so such a word is replaced by the address of the same place in the captured one:
of the same symbol, as far from its beginning. What no symbol names stays as it is, and differs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.code.code_object import list_named_places
from kerncap_stages.code.kernel_facts import strip_unit
from kerncap_stages.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

_WORD_BYTES = 8


@dataclass(frozen=True)
class _Place:
    start: int
    end: int
    captured: int


class Relocation:
    """From addresses in a variant's code object to those in the captured one."""

    def __init__(
        self, captured: bytes, captured_address: int, variant: bytes, variant_address: int, variant_bytes: int
    ) -> None:
        """Addresses: where each is loaded."""
        self._captured, self._captured_address = captured, captured_address
        self._variant, self._variant_address = variant, variant_address
        self._end = variant_address + variant_bytes
        self.words = 0  # that were replaced

    @cached_property
    def _places(self) -> list[_Place]:
        there = _unique(self._captured)
        places = [
            _Place(
                self._variant_address + offset,
                self._variant_address + offset + min(size, there[name][1]),
                self._captured_address + there[name][0],
            )
            for name, (offset, size) in _unique(self._variant).items()
            if name in there
        ]
        return sorted(places, key=lambda place: place.start)

    def apply(self, chunk: npt.NDArray[np.uint8], before: Callable[[], npt.NDArray[np.uint8]]) -> None:
        """Replace each aligned word of a chunk that is such an address, and was not there before."""
        whole = chunk.size // _WORD_BYTES * _WORD_BYTES
        words = chunk[:whole].view(np.uint64)
        found = np.flatnonzero((words >= self._variant_address) & (words < self._end))
        if not found.size:
            return
        old = before()[:whole].view(np.uint64)
        for at in found[words[found] != old[found]]:
            address = int(words[at])
            index = bisect_right(self._places, address, key=lambda place: place.start) - 1
            if index >= 0 and address < self._places[index].end:
                words[at] = self._places[index].captured + (address - self._places[index].start)
                self.words += 1


def relocated_note(words: int) -> str:
    """What people are told of it."""
    return f"{words} words hold addresses of functions or tables: compared by the symbols that they lead to"


def _unique(code_object: bytes) -> dict[str, tuple[int, int]]:
    """(offset, size) of everything that has a name of its own."""
    try:
        places = [
            (strip_unit(place.name), place.offset_bytes, place.size_bytes)
            for place in list_named_places(code_object)
        ]
    except ArtifactError:
        return {}
    names = Counter(name for name, _, _ in places)
    return {name: (offset, size) for name, offset, size in places if names[name] == 1}
