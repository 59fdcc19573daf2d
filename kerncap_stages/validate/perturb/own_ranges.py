"""Finds where memory of unknown type differs, if it differs as floats do.

One region may hold arrays of several types, as a framework's pool does. So the type is guessed by what
differs, and not by all of the region.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.validate.perturb.guessed_types import differ_as_floats, guess_float

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kerncap_stages.validate.arguments import Span

    Bytes = npt.NDArray[np.uint8]

# The type is guessed by all words of these pieces that differ somewhere: few elements may differ.
_LINE_BYTES = 64
# An array goes on in neighbouring blocks that the kernel wrote, and that look like floats of the same type.
_BLOCK_BYTES = 4096
_MOST_BLOCKS = 256


def find_float_range(part: Span, before: Bytes, expected: Bytes, actual: Bytes) -> Span | None:
    """Return the range of a part of unknown type that differs, with the float type that it looks like.

    before: the part before the kernel wrote what is expected. Each: uint8[size of the part].
    None if nothing differs, or not as floats do.
    """
    size = expected.size // _LINE_BYTES * _LINE_BYTES
    differing = np.flatnonzero(expected != actual)
    if not differing.size or differing[-1] >= size:
        return None
    lines = np.unique(differing // _LINE_BYTES)
    kind = guess_float(expected[:size].reshape(-1, _LINE_BYTES)[lines].reshape(-1))
    if kind is None or not differ_as_floats(kind, expected, actual):
        return None

    def goes_on(low: int) -> bool:
        block = expected[low : low + _BLOCK_BYTES]
        is_written = bool((block != before[low : low + _BLOCK_BYTES]).any())
        return is_written and guess_float(block) == kind

    first = int(differing[0]) // _BLOCK_BYTES * _BLOCK_BYTES
    last = min((int(differing[-1]) // _BLOCK_BYTES + 1) * _BLOCK_BYTES, expected.size)
    for _ in range(_MOST_BLOCKS):
        if first == 0 or not goes_on(first - _BLOCK_BYTES):
            break
        first -= _BLOCK_BYTES
    for _ in range(_MOST_BLOCKS):
        if last == expected.size or not goes_on(last):
            break
        last = min(last + _BLOCK_BYTES, expected.size)
    return replace(part, start=part.start + first, end=part.start + last, element_type=kind)


def join_ranges(known: Span | None, found: Span) -> Span:
    """Return a range that holds both, with the type of the first one."""
    if known is None:
        return found
    return replace(known, start=min(known.start, found.start), end=max(known.end, found.end))


def cut_at_range(part: Span, inner: Span | None) -> Iterator[Span]:
    """Yield what lies before a range in a part, the range, and what lies behind it."""
    if inner is None:
        yield part
        return
    if part.start < inner.start:
        yield replace(part, end=inner.start)
    yield inner
    if inner.end < part.end:
        yield replace(part, start=inner.end)
