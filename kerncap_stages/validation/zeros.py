"""Zeros among floating-point elements, made numbers as large as what the kernel leaves there.

A zero with some bits flipped is so small that sums swallow it: a variant that adds to an output that it
should set, or sets one that it should add to, would leave the same.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.validation.chunks import read_chunk, read_chunk_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.store import Store
    from kerncap_stages.validation.arguments import Span
    from kerncap_stages.validation.chunks import ChunkList

    Bytes = npt.NDArray[np.uint8]

# The words that elements are, and their numbers: numpy has no bf16, which is the upper half of an fp32.
_KINDS: dict[str, tuple[type[np.unsignedinteger], type[np.floating]]] = {
    "fp64": (np.uint64, np.float64),
    "fp32": (np.uint32, np.float32),
    "fp16": (np.uint16, np.float16),
    "bf16": (np.uint16, np.float32),
}
# Where nothing is known of the elements. It is 258 as an fp32, and as flags each of its bytes is 1 or odd.
_UNKNOWN = 0x43810101
_NO_BYTES = np.empty(0, np.uint8)


class Golden:
    """What the kernel leaves in a region, read when it is asked for; nothing where that is not known."""

    def __init__(self, store: Store, region: Region) -> None:
        """``region``: of a capture that may have no post-state."""
        self._store, self._post = store, region.post

    @cached_property
    def _content(self) -> Bytes:
        return _NO_BYTES if self._post is None else self._store.read_memory(self._post.digest)

    def all(self, start: int, end: int) -> Bytes:
        """Give a stretch of it, having read all of it."""
        return self._content[start:end]

    @cached_property
    def _chunks(self) -> ChunkList | None:
        return None if self._post is None else read_chunk_list(self._store, self._post)

    def of_chunk(self, index: int) -> Callable[[int, int], Bytes]:
        """Give what reads stretches of one chunk, having read that chunk once and nothing else."""

        @cache
        def chunk() -> tuple[int, Bytes]:
            if self._chunks is None:
                return 0, _NO_BYTES
            return index * self._chunks.chunk_size_bytes, read_chunk(self._store, self._chunks, index)

        def read(start: int, end: int) -> Bytes:
            before, content = chunk()
            return content[start - before : end - before]

        return read


@contextmanager
def lifted_zeros(
    content: Bytes, start: int, part: Span, golden: Callable[[int, int], Bytes]
) -> Iterator[None]:
    """Once the content was changed, make numbers of what were zeros before.

    start: of the content in its region; elements that it holds in part are left alone. golden: gives what the
    kernel leaves from one offset to another.
    """
    kind = part.element_type
    if kind is not None and kind not in _KINDS:
        yield
        return
    word = np.uint32 if kind is None else _KINDS[kind][0]
    size = np.dtype(word).itemsize
    first = (part.start - start) % size
    end = first + max(0, content.size - first) // size * size
    elements = content[first:end].view(word)
    sign = 1 << (8 * size - 1)
    zeros = (elements & ~word(sign)) == 0
    yield
    if zeros.any():
        after = golden(start + first, start + end)
        elements[zeros] = _UNKNOWN if kind is None else _lifted(after, kind)


def _lifted(golden: Bytes, kind: str) -> int:
    """The power of two next below the largest finite number, or 1; every byte differs from a zero's."""
    word, number = _KINDS[kind]
    is_upper_half = kind == "bf16"
    words = golden.view(word)
    values = (words.astype(np.uint32) << 16 if is_upper_half else words).view(number)
    with np.errstate(invalid="ignore"):
        sizes = np.abs(values[np.isfinite(values)])
    largest = float(sizes.max(initial=0.0)) or 1.0
    bits = int(np.array(np.exp2(np.floor(np.log2(largest))), number).view(f"u{np.dtype(number).itemsize}"))
    if is_upper_half:
        bits >>= 16
    for at in range(0, 8 * np.dtype(word).itemsize, 8):
        bits |= 0 if bits >> at & 0xFF else 1 << at
    return bits
