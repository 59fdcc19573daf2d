"""Finds outputs that tell little: NaNs alone, which any variant may spread, or far fewer results.

A flag or a count among the inputs may make a kernel leave at once, or write the same everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.store.chunks import read_differing_chunks
from kerncap_stages.validate.arguments import Window
from kerncap_stages.validate.compare.bounds import FLOAT_TYPES
from kerncap_stages.validate.compare.elements import find_dtype
from kerncap_stages.validate.perturb.guessed_types import find_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.manifests.validation import BaselineReplay
    from kerncap_stages.store import Store
    from kerncap_stages.validate.arguments import Span

    Bytes = npt.NDArray[np.uint8]


NO_NUMBERS = "gives NaN and infinity alone"
LEAVES_ALONE = "leaves outputs unchanged"
FEW_RESULTS = "gives far fewer different results"
_FEWER = 4  # times fewer than in the capture
_SAMPLE = 1 << 16  # elements
_MOST_KEPT_BYTES = 64 << 20  # of the pre-states of all regions


@dataclass(frozen=True)
class _Results:
    """What a kernel left in a part: how many elements changed, how many of a sample of them are different."""

    element_type: str | None
    changed: int
    different: int
    has_numbers: bool  # not NaNs and infinities alone


class OutputJudge:
    """Judges whether outputs tell as much as in the capture."""

    def __init__(self, store: Store, regions: Sequence[tuple[Region, Sequence[Span]]]) -> None:
        """``regions``: with the parts whose elements have one type."""
        self._store = store
        self._regions = regions
        self._captured: dict[int, list[_Results]] = {}  # by base address, of each part
        # The same states are judged several times, and most begin with the same pre-state.
        self._losses: dict[tuple[int, MemoryRef, MemoryRef], str | None] = {}
        self._before: dict[int, tuple[MemoryRef, Bytes]] = {}  # by base address, the last one
        windows = (Window(region.size_bytes, tuple(parts)) for region, parts in regions)
        self._keeps = sum(window.chunk_bytes for window in windows) <= _MOST_KEPT_BYTES

    def find_lost(self, before: Mapping[int, MemoryRef], changed: Mapping[int, MemoryRef]) -> dict[str, str]:
        """Find the outputs that tell little now, and told more in the capture: why, by their names.

        before: states of regions before the captured kernel ran, by base address, unless as captured.
        changed: the states after it of those that it changed.
        """
        found = {}
        for region, parts in self._regions:
            base = region.base_address
            if region.pre is not None and region.post is not None and region.post != region.pre:
                pre, post = before.get(base, region.pre), changed.get(base)
                why: str | None = LEAVES_ALONE
                if post is not None:
                    key = base, pre, post
                    if key not in self._losses:
                        self._losses[key] = self._explain_loss(region, parts, pre, post)
                    why = self._losses[key]
                if why is not None:
                    found[label_region(region, parts)] = why
        return found

    def find_lost_kept(self, replay: BaselineReplay) -> dict[str, str]:
        """As ``find_lost``, of a replay that is kept."""
        return self.find_lost(replay.pre_states, replay.changed)

    def differ(self, outputs: Mapping[int, MemoryRef]) -> bool:
        """Whether outputs, by base address, differ from the captured ones where the dispatch changed them."""
        for region, _ in self._regions:
            now = outputs.get(region.base_address)
            if now is None or region.pre is None or region.post is None or now == region.post:
                continue
            for _, (post, pre, found) in read_differing_chunks(self._store, region.post, region.pre, now):
                if ((post != pre) & (post != found)).any():
                    return True
        return False

    def _explain_loss(
        self, region: Region, parts: Sequence[Span], pre: MemoryRef, post: MemoryRef
    ) -> str | None:
        """Return why a region tells little; None: a part tells enough, or none told more in the capture."""
        parts = [part for part in parts if _is_written(region, part)]
        if not parts:
            return None
        window = Window(region.size_bytes, tuple(parts))
        before, after = self._read_before(region, window, pre), window.read(self._store, post)
        reasons = []
        for part, then in zip(window.inner_parts, self._find_captured(region, window), strict=True):
            if then.changed == 0:
                continue  # no output
            here = slice(part.start, part.end)
            now = _count_results(before[here], after[here], then.element_type)
            if now.changed == 0:
                reasons.append(LEAVES_ALONE)
            elif then.has_numbers and not now.has_numbers:
                reasons.append(NO_NUMBERS)
            elif now.changed < then.changed // _FEWER or now.different < then.different // _FEWER:
                reasons.append(FEW_RESULTS)
            else:
                return None
        return reasons[0] if reasons else None

    def _read_before(self, region: Region, window: Window, pre: MemoryRef) -> Bytes:
        known = self._before.get(region.base_address)
        if known is not None and known[0] == pre:
            return known[1]
        content = window.read(self._store, pre)
        if self._keeps:
            self._before[region.base_address] = pre, content
        return content

    def _find_captured(self, region: Region, window: Window) -> list[_Results]:
        base, parts = region.base_address, window.inner_parts
        if base not in self._captured and region.pre is not None and region.post is not None:
            before = self._read_before(region, window, region.pre)
            after = window.read(self._store, region.post)
            pieces = [(before[part.start : part.end], after[part.start : part.end]) for part in parts]
            self._captured[base] = [
                _count_results(*piece, find_type(part.element_type, piece[1]))
                for part, piece in zip(parts, pieces, strict=True)
            ]
        return self._captured[base]


def _is_written(region: Region, part: Span) -> bool:
    """Whether the captured dispatch wrote to a part: what it left as it was is no output."""
    return any(at < part.end and part.start < at + size for at, size in region.written or ())


def label_region(region: Region, parts: Sequence[Span]) -> str:
    """Name a region for people: by the arguments that lead to it."""
    return ", ".join(part.label for part in parts if part.label) or f"region {region.base_address:#x}"


def has_floats(store: Store, region: Region, parts: Sequence[Span]) -> bool:
    """Whether a region holds floats other than zeros."""
    if region.pre is None:
        return False
    window = Window(region.size_bytes, tuple(parts))
    content = window.read(store, region.pre)
    for part in window.inner_parts:
        piece = content[part.start : part.end]
        kind = find_type(part.element_type, piece)
        if kind in FLOAT_TYPES and piece.any():
            return True
    return False


def _count_results(before: Bytes, after: Bytes, element_type: str | None) -> _Results:
    """Count what a kernel changed in a part. Each: uint8[size of the part]."""
    size = find_dtype(element_type).itemsize if element_type else 4
    words = [each[: each.size // size * size].view(f"u{size}") for each in (before, after)]
    places = np.flatnonzero(words[0] != words[1])
    # Not np.unique, which imports numpy.ma: that takes longer than to sort.
    sample = np.sort(words[1][places[:: 1 + places.size // _SAMPLE]])
    different = int(np.count_nonzero(sample[1:] != sample[:-1])) + min(1, sample.size)
    has_numbers = True
    if element_type in FLOAT_TYPES and places.size:
        with np.errstate(invalid="ignore"):
            values = words[1][places].view(find_dtype(element_type)).astype(np.float64)
        has_numbers = bool(np.isfinite(values).any())
    return _Results(element_type, places.size, different, has_numbers)


def count_special(store: Store, memory: MemoryRef, window: Window) -> int:
    """Count the NaNs and infinities in the floats of a memory. ``window``: where they are."""
    found = 0
    for part in window.inner_parts:
        if part.element_type in FLOAT_TYPES:
            dtype = find_dtype(part.element_type)
            content = window.read(store, memory)[part.start : part.end]
            values = content[: content.size // dtype.itemsize * dtype.itemsize].view(dtype)
            with np.errstate(invalid="ignore"):
                found += int(np.count_nonzero(~np.isfinite(values.astype(np.float64))))
    return found
