"""Which words lead into memory that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from kerncap_stages.manifests.capture import Capture

_SLAB_WORDS = 1 << 17  # looked at together: what is made of them beside them is as large
_FEWEST_RECORDS = 4


class AddressRanges:
    """Ranges of addresses, by number in the order of their beginnings."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        """``ranges``: (address, length) of each; what lies in two of them counts as in the later one."""
        known = sorted(ranges)
        self._starts = np.array([start for start, _ in known], np.uint64)
        ends = np.array([start + size for start, size in known], np.uint64)
        self._ends = np.maximum.accumulate(ends)

    def numbers(self, words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Give the number of the range that each word leads into: int64[size]; -1 for none."""
        if not len(self._starts):
            return np.full(words.size, -1, np.int64)
        found = np.searchsorted(self._starts, words, side="right").astype(np.int64) - 1
        return np.where(words < self._ends[np.maximum(found, 0)], found, -1)

    def words_in(self, words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Find the words of memory that lead into any range: their numbers, ascending."""
        found = [
            start + np.flatnonzero(self.numbers(words[start : start + _SLAB_WORDS]) >= 0)
            for start in range(0, words.size, _SLAB_WORDS)
        ]
        return np.concatenate([np.empty(0, np.int64), *found])


def null_words(words: npt.NDArray[np.uint64], addresses: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Find zeros that may be addresses: in the places that those have in records of one size, if they do.

    addresses: numbers of the words that are some; a few say nothing of records.
    """
    stride = int(np.gcd.reduce(np.diff(addresses))) if addresses.size >= _FEWEST_RECORDS else 1
    first = int(addresses[0]) % stride if stride > 1 else 0
    return first + stride * np.flatnonzero(words[first::stride] == 0)


def captured_ranges(capture: Capture) -> AddressRanges:
    """All memory that was there in the program, instructions too."""
    regions = [(region.base_address, region.size_bytes) for region in capture.regions]
    code = [(loaded.load_address, loaded.load_size_bytes) for loaded in capture.loaded_code_objects]
    return AddressRanges([*regions, *code])
