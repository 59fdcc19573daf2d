"""Which parts of a large region are changed, where changing all of it would take too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_SAMPLES = 64
_SAMPLE_BYTES = 1 << 20


def sampled(size_bytes: int, known: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """(offset, length) of the first and last MiB, of some between, and of ``known``; ascending and apart."""
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
