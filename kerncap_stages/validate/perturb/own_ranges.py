"""Finds where memory of unknown type differs, if it differs as floats do.

One region may hold arrays of several types, as a framework's pool does. So the type is guessed by what
differs, and not by all of the region. Each array has bounds of its own: a range ends where the numbers are of
another size, or where they stop to differ.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kerncap_stages.validate.perturb.guessed_types import (
    ELEMENT_BYTES,
    differ_as_floats,
    find_exponents,
    guess_float,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from kerncap_stages.validate.arguments import Span

    Bytes = npt.NDArray[np.uint8]

# The type is guessed by all words of these pieces that differ somewhere: few elements may differ.
_LINE_BYTES = 64
# An array goes on in neighbouring blocks that the kernel wrote, and that look like floats of the same type.
_BLOCK_BYTES = 4096
_LINES = _BLOCK_BYTES // _LINE_BYTES
_MOST_BLOCKS = 256
# If so many elements differ in most blocks, one in which none does is hardly chance, but another array.
_MANY = 16
_MOST = 0.75
# Powers of two: the largest elements of blocks of one array are within these, lines at its ends within those.
_SAME_SIZE = 4
_SAME_SIZE_OF_LINES = 8
# A word whose exponent is further away from the usual one is no float, but an integer.
_MOST_EXPONENTS = 40
# Each range is compared by itself.
_MOST_RANGES = 16
_NO_SIZE = -1


class _Run(NamedTuple):
    """Blocks from ``first`` to before ``end`` whose largest elements have nearly one exponent."""

    first: int
    end: int
    lowest: int
    highest: int


def find_float_ranges(
    part: Span, before: Bytes, expected: Bytes, actuals: Sequence[Bytes]
) -> tuple[Span, ...]:
    """Return the ranges of a part of unknown type that differ, with the float type that they look like.

    before: the part before the kernel wrote what is expected. actuals: outputs of several runs. Each:
    uint8[size of the part]. Empty if nothing differs, or one run not as floats do: all differences are in
    the ranges.
    """
    differing = np.zeros(expected.size, np.bool_)
    for actual in actuals:
        differing |= expected != actual
    if not differing.any():
        return ()
    padding = (0, -expected.size % _BLOCK_BYTES)
    padded = np.pad(expected, padding)
    differing = np.pad(differing, padding)
    is_in_line = differing.reshape(-1, _LINE_BYTES).any(axis=1)
    kind = guess_float(padded.reshape(-1, _LINE_BYTES)[is_in_line].reshape(-1))
    if kind is None or not all(differ_as_floats(kind, expected, actual) for actual in actuals):
        return ()
    found = _Memory(kind, np.pad(before, padding), padded, differing).find_ranges()
    if found is None or len(found) > _MOST_RANGES:
        return ()
    cut = [(low, min(high, expected.size)) for low, high in found]
    if not all(
        differ_as_sums(kind, expected[low:high], actual[low:high]) for low, high in cut for actual in actuals
    ):
        return ()
    return tuple(
        replace(part, start=part.start + low, end=part.start + high, element_type=kind) for low, high in cut
    )


def differ_as_sums(element_type: str, expected: Bytes, actual: Bytes) -> bool:
    """Whether all that differs in a range looks like floats of the size that is usual in it, or is zero.

    Packed integers look like numbers that are far too small or too large.
    """
    if not differ_as_floats(element_type, expected, actual):
        return False
    usual, _ = _find_sizes(element_type, expected)
    differing = _mark_elements(expected != actual, element_type)
    return not any(
        bool(_mark_absurd(find_exponents(element_type, each)[differing], usual).any())
        for each in (expected, actual)
    )


class _Memory:
    """A part of a region in whole blocks, and what differs in it."""

    def __init__(self, kind: str, before: Bytes, expected: Bytes, differing: npt.NDArray[np.bool_]) -> None:
        self._kind, self._expected = kind, expected
        marks = _mark_elements(differing, kind)
        self._counts = marks.reshape(-1, _BLOCK_BYTES // ELEMENT_BYTES[kind]).sum(axis=1)
        self._differs = differing.reshape(-1, _LINE_BYTES).any(axis=1)
        self._written = self._differs | (before != expected).reshape(-1, _LINE_BYTES).any(axis=1)

    def find_ranges(self) -> list[tuple[int, int]] | None:
        """Return the ranges of bytes that hold all differences; None if not all are among floats."""
        found: list[tuple[int, int]] = []
        for run in self._find_runs():
            if run.highest == _NO_SIZE:
                lines = self._find_lines(run.first)
                if guess_float(self._expected[lines[0] * _LINE_BYTES : lines[1] * _LINE_BYTES]) != self._kind:
                    return None
            else:
                lines = self._trim(run)
            found.append((lines[0] * _LINE_BYTES, lines[1] * _LINE_BYTES))
        return found

    def _find_runs(self) -> Iterator[_Run]:
        """Yield the runs of blocks that differ, with the blocks among and beside them that seem to belong."""
        touched = np.flatnonzero(self._counts)
        first = max(0, int(touched[0]) - _MOST_BLOCKS)
        last = min(self._counts.size, int(touched[-1]) + 1 + _MOST_BLOCKS)
        run: _Run | None = None
        for block in range(first, last):
            size = self._measure(block)
            if run is not None and size != _NO_SIZE:
                lowest, highest = min(run.lowest, size), max(run.highest, size)
                if highest - lowest <= _SAME_SIZE:
                    run = _Run(run.first, block + 1, lowest, highest)
                    continue
            if run is not None:
                yield from self._split(run)
            run = None if size == _NO_SIZE else _Run(block, block + 1, size, size)
            if size == _NO_SIZE and self._counts[block]:
                yield _Run(block, block + 1, _NO_SIZE, _NO_SIZE)
        if run is not None:
            yield from self._split(run)

    def _split(self, run: _Run) -> Iterator[_Run]:
        """Yield a run; of one in which many elements differ only the blocks that do; none if nothing does."""
        counts = self._counts[run.first : run.end]
        differing = counts[counts > 0]
        if not differing.size:
            return
        if np.quantile(differing, 1 - _MOST) < _MANY:
            yield run
            return
        edges = np.flatnonzero(np.diff(np.concatenate(([False], counts > 0, [False])).astype(np.int8)))
        for low, high in zip(edges[::2], edges[1::2], strict=True):
            yield run._replace(first=run.first + int(low), end=run.first + int(high))

    def _measure(self, block: int) -> int:
        """Return the exponent of the largest element of a block that looks like floats and was written."""
        content = self._expected[block * _BLOCK_BYTES : (block + 1) * _BLOCK_BYTES]
        is_written = self._written[block * _LINES : (block + 1) * _LINES].any()
        if not is_written or guess_float(content) != self._kind:
            return _NO_SIZE
        return _find_sizes(self._kind, content)[1]

    def _find_lines(self, block: int) -> tuple[int, int]:
        """Return the lines of a mixed block from the first that differs to the last, and like ones around."""
        start = block * _LINES
        at = np.flatnonzero(self._differs[start : start + _LINES])
        lines = self._expected.reshape(-1, _LINE_BYTES)[start + at].reshape(-1)
        good = self._mark_lines(block, _find_sizes(self._kind, lines)[1])
        low, high = int(at[0]), int(at[-1]) + 1
        while low > 0 and good[low - 1]:
            low -= 1
        while high < _LINES and good[high]:
            high += 1
        return start + low, start + high

    def _trim(self, run: _Run) -> tuple[int, int]:
        """Return the lines of a run without those at its ends that seem to be of something else."""
        low, high = run.first * _LINES, run.end * _LINES
        good = np.flatnonzero(self._mark_lines(run.first, run.highest))
        low += int(good[0]) if good.size else 0
        good = np.flatnonzero(self._mark_lines(run.end - 1, run.highest))
        high -= _LINES - 1 - int(good[-1]) if good.size else 0
        return low, high

    def _mark_lines(self, block: int, size: int) -> npt.NDArray[np.bool_]:
        """Mark the lines of a block that differ, or were written and hold floats of this size: bool[n]."""
        here = slice(block * _LINES, (block + 1) * _LINES)
        content = self._expected[block * _BLOCK_BYTES : (block + 1) * _BLOCK_BYTES]
        exponents = find_exponents(self._kind, content).reshape(_LINES, -1)
        is_alike = np.abs(exponents.max(axis=1) - size) <= _SAME_SIZE_OF_LINES
        is_alike &= ~_mark_absurd(exponents, size).any(axis=1)
        marked: npt.NDArray[np.bool_] = self._differs[here] | (self._written[here] & is_alike)
        return marked


def _find_sizes(kind: str, content: Bytes) -> tuple[int, int]:
    """Return the middle exponent of the numbers that are not zero, and the largest plausible one."""
    exponents = find_exponents(kind, content)
    exponents = exponents[exponents >= 0]
    if not exponents.size:
        return _NO_SIZE, _NO_SIZE
    usual = int(np.median(exponents))
    plausible = exponents[~_mark_absurd(exponents, usual)]
    return usual, int(plausible.max(initial=usual))


def _mark_absurd(exponents: npt.NDArray[np.int32], usual: int) -> npt.NDArray[np.bool_]:
    """Mark numbers that are not zero and far from the usual size. No number is near infinity."""
    absurd: npt.NDArray[np.bool_] = (exponents >= 0) & (np.abs(exponents - usual) > _MOST_EXPONENTS)
    return absurd


def _mark_elements(marks: npt.NDArray[np.bool_], kind: str) -> npt.NDArray[np.bool_]:
    """Mark the elements of which a byte is marked: bool[n]. The last bytes may be no whole element."""
    size = ELEMENT_BYTES[kind]
    marked: npt.NDArray[np.bool_] = marks[: marks.size // size * size].reshape(-1, size).any(axis=1)
    return marked


def cut_at_ranges(part: Span, ranges: Sequence[Span]) -> Iterator[Span]:
    """Yield a part in pieces: ranges in it, in order, and what lies before, between and behind them."""
    start = part.start
    for inner in ranges:
        if start < inner.start:
            yield replace(part, start=start, end=inner.start)
        yield inner
        start = inner.end
    if start < part.end:
        yield part if start == part.start else replace(part, start=start)
