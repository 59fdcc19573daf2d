"""Finds outputs that tell little: NaNs alone, which any variant may spread, or far fewer results.

A flag or a count among the inputs may make a kernel leave at once, or write the same everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.validate.compare.bounds import FLOAT_TYPES
from kerncap_stages.validate.compare.elements import find_dtype
from kerncap_stages.validate.perturb.guessed_types import find_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.store import Store
    from kerncap_stages.validate.arguments import Span

    Bytes = npt.NDArray[np.uint8]


NO_NUMBERS = "gives NaN and infinity alone"
LEAVES_ALONE = "leaves outputs unchanged"
FEW_RESULTS = "gives far fewer different results"
_FEWER = 4  # times fewer than in the capture
_SAMPLE = 1 << 16  # elements


def find_lost_outputs(
    store: Store,
    regions: Iterable[tuple[Region, Sequence[Span]]],
    before: Mapping[int, MemoryRef],
    changed: Mapping[int, MemoryRef],
) -> dict[str, str]:
    """Find the outputs that tell little now, and told more in the capture: why, by their names.

    regions: with the parts whose elements have one type. before: states of regions before the captured kernel
    ran, by base address, unless they were as captured. changed: the states after it of those that it changed.
    """
    found = {}
    for region, parts in regions:
        base = region.base_address
        if region.pre is not None and region.post is not None and region.post != region.pre:
            pre, post = before.get(base, region.pre), changed.get(base)
            why = (
                LEAVES_ALONE
                if post is None
                else _explain_loss(store, parts, pre, post, region.pre, region.post)
            )
            if why is not None:
                found[label_region(region, parts)] = why
    return found


def label_region(region: Region, parts: Sequence[Span]) -> str:
    """Name a region for people: by the arguments that lead to it."""
    return ", ".join(part.label for part in parts if part.label) or f"region {region.base_address:#x}"


def has_floats(store: Store, region: Region, parts: Sequence[Span]) -> bool:
    """Whether a region holds floats other than zeros."""
    if region.pre is None:
        return False
    content = store.read_memory(region.pre.digest)
    for part in parts:
        piece = content[part.start : part.end]
        kind = find_type(part.element_type, piece)
        if kind in FLOAT_TYPES and piece.any():
            return True
    return False


def _explain_loss(
    store: Store, parts: Sequence[Span], pre: MemoryRef, post: MemoryRef, *captured: MemoryRef
) -> str | None:
    """Return why a region tells little; None: a part tells enough, or none told more in the capture."""
    states = [store.read_memory(state.digest) for state in (pre, post, *captured)]
    reasons = []
    for part in parts:
        before, after, captured_before, captured_after = (state[part.start : part.end] for state in states)
        kind = find_type(part.element_type, captured_after)
        now = _count_results(before, after, kind)
        then = _count_results(captured_before, captured_after, kind)
        if then[0] == 0:
            continue  # no output
        had_numbers = not _writes_no_number(captured_before, captured_after, kind)
        if now[0] == 0:
            reasons.append(LEAVES_ALONE)
        elif had_numbers and _writes_no_number(before, after, kind):
            reasons.append(NO_NUMBERS)
        elif any(few < usual // _FEWER for few, usual in zip(now, then, strict=True)):
            reasons.append(FEW_RESULTS)
        else:
            return None
    return reasons[0] if reasons else None


def _count_results(before: Bytes, after: Bytes, element_type: str | None) -> tuple[int, int]:
    """Count the elements that changed, and the different values in a sample of them."""
    size = find_dtype(element_type).itemsize if element_type else 4
    words = [each[: each.size // size * size].view(f"u{size}") for each in (before, after)]
    places = np.flatnonzero(words[0] != words[1])
    sample = words[1][places[:: 1 + places.size // _SAMPLE]]
    return places.size, np.unique(sample).size


def _writes_no_number(before: Bytes, after: Bytes, element_type: str | None) -> bool:
    """Whether all that a kernel wrote in an output are NaNs and infinities. Each: uint8[size_bytes]."""
    if element_type not in FLOAT_TYPES:
        return False
    dtype = find_dtype(element_type)
    end = after.size // dtype.itemsize * dtype.itemsize
    changed = (before[:end] != after[:end]).reshape(-1, dtype.itemsize).any(axis=1)
    with np.errstate(invalid="ignore"):
        values = after[:end].view(dtype)[changed].astype(np.float64)
    return bool(values.size) and not np.isfinite(values).any()


def count_special(store: Store, memory: MemoryRef, parts: Sequence[Span]) -> int:
    """Count the NaNs and infinities in the floats of a memory. ``parts``: the types of its elements."""
    found = 0
    for part in parts:
        if part.element_type in FLOAT_TYPES:
            dtype = find_dtype(part.element_type)
            content = store.read_memory(memory.digest)[part.start : part.end]
            values = content[: content.size // dtype.itemsize * dtype.itemsize].view(dtype)
            with np.errstate(invalid="ignore"):
                found += int(np.count_nonzero(~np.isfinite(values.astype(np.float64))))
    return found
