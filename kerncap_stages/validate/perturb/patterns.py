"""Chooses the bits that a perturbation flips, and the numbers that replace zeros.

Every perturbed byte differs from the captured one. A zero with some bits flipped would be a tiny number,
which vanishes in sums: a variant that adds to an output instead of setting it would give the same result. So
zeros among floating-point elements become numbers about as large as those that the kernel writes there.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache, cached_property
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.store.chunks import read_chunk, read_chunk_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.store import Store
    from kerncap_stages.store.chunks import ChunkList
    from kerncap_stages.validate.arguments import Span

    Bytes = npt.NDArray[np.uint8]

# Flips half of the bits of every byte.
STRONG_UNIT = bytes([0xA5])
# Flips the lowest bit of every byte, so that finite floats stay finite unless they are very large.
_LIGHT_UNIT = bytes([1])
# Changes an element by a factor of at most two, so that rounding errors stay as large as the bounds assume.
_MAGNITUDE_UNITS = {
    "fp64": bytes([1, 1, 1, 1, 1, 1, 0x10, 0]),
    "fp32": bytes([1, 1, 0x80, 0]),
    "fp16": bytes([1, 0x04]),
    "bf16": bytes([0x81, 0]),
}
# The integer type and the float type of elements. numpy has no bf16, which is the upper half of an fp32.
_KINDS: dict[str, tuple[type[np.unsignedinteger], type[np.floating]]] = {
    "fp64": (np.uint64, np.float64),
    "fp32": (np.uint32, np.float32),
    "fp16": (np.uint16, np.float16),
    "bf16": (np.uint16, np.float32),
}
# Replaces a zero of unknown type. As an fp32 it is 258; as flags or bytes, each byte is odd.
_UNKNOWN = 0x43810101
_NO_BYTES = np.empty(0, np.uint8)
_SAMPLES = 64
_SAMPLE_BYTES = 1 << 20


def choose_light_unit(part: Span, *, keep_magnitude: bool) -> bytes:
    """Return the bits of one element that a light perturbation flips."""
    return _MAGNITUDE_UNITS.get(part.element_type or "", _LIGHT_UNIT) if keep_magnitude else _LIGHT_UNIT


def make_pattern(part: Span, unit: bytes, low: int, high: int) -> Bytes:
    """Return the bits to flip from offset ``low`` of a region to ``high``: uint8[high - low]."""
    bits = np.frombuffer(unit, np.uint8)
    turned = np.roll(bits, -((low - part.start) % bits.size))
    # Not np.resize, which is slow: it concatenates an array for each element.
    return np.tile(turned, -(-(high - low) // turned.size))[: high - low]


def flip(content: Bytes, start: int, part: Span, pattern: Bytes, golden: Callable[[int, int], Bytes]) -> None:
    """Perturb content in place. start: its offset in the region. golden: as for ``replace_zeros``."""
    with replace_zeros(content, start, part, golden):
        content ^= pattern


def choose_samples(size_bytes: int, known: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Choose parts to perturb in a region that is too large to be perturbed everywhere.

    Returns (offset, length) of the first and last MiB, of some between them, and of ``known``. They are
    ascending and do not overlap.
    """
    last = max(size_bytes - _SAMPLE_BYTES, 0)
    samples = [(last * i // (_SAMPLES - 1), min(_SAMPLE_BYTES, size_bytes)) for i in range(_SAMPLES)]
    merged: list[tuple[int, int]] = []
    for offset, length in sorted([*samples, *known]):
        if merged and offset <= merged[-1][0] + merged[-1][1]:
            start = merged[-1][0]
            merged[-1] = (start, max(merged[-1][1], offset + length - start))
        else:
            merged.append((offset, length))
    return merged


class Golden:
    """Reads a region's golden post-state when it is needed; returns no bytes if there is none."""

    def __init__(self, store: Store, region: Region) -> None:
        """``region``: may have no post-state."""
        self._store, self._post = store, region.post
        self._lock = Lock()  # several threads may be the first that reads

    @cached_property
    def _content(self) -> Bytes:
        return _NO_BYTES if self._post is None else self._store.read_memory(self._post.digest)

    def read(self, start: int, end: int) -> Bytes:
        """Return bytes of the region; the first call reads all of it."""
        with self._lock:
            content = self._content
        return content[start:end]

    @cached_property
    def _chunks(self) -> ChunkList | None:
        return None if self._post is None else read_chunk_list(self._store, self._post)

    def make_chunk_reader(self, index: int) -> Callable[[int, int], Bytes]:
        """Return a function that returns bytes of one chunk; it reads only that chunk, and only once."""

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
def replace_zeros(
    content: Bytes, start: int, part: Span, golden: Callable[[int, int], Bytes]
) -> Iterator[None]:
    """Find the zeros before the ``with`` block, which perturbs the content; replace them by numbers after it.

    start: offset of the content in its region; elements that are cut off at its ends are left alone. golden:
    returns the golden bytes from one offset to another.
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
        number = _UNKNOWN
        if kind is not None:
            number = _choose_number(golden(start + first, start + end), kind)
        elements[zeros] = number


def _choose_number(golden: Bytes, kind: str) -> int:
    """Choose the power of two below the largest golden number, or 1, and make all its bytes nonzero."""
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
