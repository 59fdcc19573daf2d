"""Replaces addresses of a variant's code object in outputs by those of the same symbols in the captured one.

A rebuilt code object is loaded elsewhere, with its functions and tables. If a kernel stores their addresses
(virtual function tables, function pointers), its outputs differ although it is right. Both code objects have
symbols. So a word that holds such an address is replaced by the address of the same symbol, with the same
offset in it, in the captured code object. Addresses without a symbol stay as they are, and differ.
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
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from kerncap_stages.code.code_object import DataSymbol

_WORD_BYTES = 8


@dataclass(frozen=True)
class _Place:
    start: int
    end: int
    captured: int


class Relocation:
    """Translates addresses in a variant's code object to addresses in the captured one."""

    def __init__(
        self,
        captured: bytes,
        captured_address: int,
        variant: bytes,
        variant_address: int,
        variant_bytes: int,
        list_places: Callable[[bytes], Iterable[DataSymbol]] = list_named_places,
    ) -> None:
        """The addresses are those at which the code objects are loaded; ``list_places`` lists symbols."""
        self._list_places = list_places
        self._captured, self._captured_address = captured, captured_address
        self._variant, self._variant_address = variant, variant_address
        self._end = variant_address + variant_bytes
        self.words = 0  # number of replaced words

    @cached_property
    def _places(self) -> list[_Place]:
        there = self._find_unique_places(self._captured)
        places = [
            _Place(
                self._variant_address + offset,
                self._variant_address + offset + min(size, there[name][1]),
                self._captured_address + there[name][0],
            )
            for name, (offset, size) in self._find_unique_places(self._variant).items()
            if name in there
        ]
        return sorted(places, key=lambda place: place.start)

    def _find_unique_places(self, code_object: bytes) -> dict[str, tuple[int, int]]:
        """Return (offset, size) of all symbols whose name is unique."""
        try:
            places = [
                (strip_unit(place.name), place.offset_bytes, place.size_bytes)
                for place in self._list_places(code_object)
            ]
        except ArtifactError:
            return {}
        names = Counter(name for name, _, _ in places)
        return {name: (offset, size) for name, offset, size in places if names[name] == 1}

    def apply(self, chunk: npt.NDArray[np.uint8], before: Callable[[], npt.NDArray[np.uint8]]) -> None:
        """Replace the aligned words of a chunk that hold addresses of the variant and changed in the run."""
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


def describe_relocation(words: int) -> str:
    """Write a note about replaced words."""
    return f"{words} words hold addresses of functions or tables: they were compared by symbol"
