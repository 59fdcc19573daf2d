"""Finds words that hold addresses in captured memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from kerncap_stages.manifests.capture import Capture

_SLAB_WORDS = 1 << 17  # searched at a time: the search needs as much memory again
_MIN_RECORDS = 4
WORD_BYTES = 8  # size of an address


class AddressRanges:
    """Ranges of addresses, numbered in the order of their start."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        """``ranges``: (address, length) of each. An address in two of them counts for the later one."""
        known = sorted(ranges)
        self._starts = np.array([start for start, _ in known], np.uint64)
        ends = np.array([start + size for start, size in known], np.uint64)
        self._ends = np.maximum.accumulate(ends)

    def find_ranges(self, words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Return the number of the range that contains each word's address: int64[size]; -1 for none."""
        if not len(self._starts):
            return np.full(words.size, -1, np.int64)
        found = np.searchsorted(self._starts, words, side="right").astype(np.int64) - 1
        return np.where(words < self._ends[np.maximum(found, 0)], found, -1)

    def find_addresses(self, words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Return the indices of the words that hold an address in any range, ascending."""
        found = [np.empty(0, np.int64)]
        for start in range(0, words.size if len(self._starts) else 0, _SLAB_WORDS):
            slab = words[start : start + _SLAB_WORDS]
            # Few words lie between the first range and the last one: only these are searched for.
            near = np.flatnonzero(slab - self._starts[0] < self._ends[-1] - self._starts[0])
            found.append(start + near[self.find_ranges(slab[near]) >= 0])
        return np.concatenate(found)


def find_null_words(words: npt.NDArray[np.uint64], addresses: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Find zeros that may be null pointers.

    If addresses lie at the same place in records of one size, only zeros at that place are found. With too
    few addresses to tell, all zeros are found. addresses: indices of the words that hold addresses.
    """
    stride = int(np.gcd.reduce(np.diff(addresses))) if addresses.size >= _MIN_RECORDS else 1
    first = int(addresses[0]) % stride if stride > 1 else 0
    return first + stride * np.flatnonzero(words[first::stride] == 0)


def find_captured_ranges(capture: Capture) -> AddressRanges:
    """Return the ranges of all captured memory and all loaded code objects."""
    regions = [(region.base_address, region.size_bytes) for region in capture.regions]
    code = [(loaded.load_address, loaded.load_size_bytes) for loaded in capture.loaded_code_objects]
    return AddressRanges([*regions, *code])


def find_kept_words(
    content: npt.NDArray[np.uint8], ranges: AddressRanges | None
) -> npt.NDArray[np.bool_] | None:
    """Mark addresses and null pointers, which keep their values: bool[words]; None if there are none.

    content: uint8[size_bytes].
    """
    words = content[: content.size // WORD_BYTES * WORD_BYTES].view(np.uint64)
    numbers = np.empty(0, np.int64) if ranges is None else ranges.find_addresses(words)
    if not numbers.size:
        return None
    kept = np.zeros(-(-content.size // WORD_BYTES), np.bool_)
    kept[numbers] = True
    kept[find_null_words(words, numbers)] = True
    return kept
