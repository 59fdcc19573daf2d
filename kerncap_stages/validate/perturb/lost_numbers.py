"""Finds outputs that hold NaNs and infinities alone: a variant that spreads NaNs is right there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kerncap_stages.validate.compare.bounds import FLOAT_TYPES
from kerncap_stages.validate.compare.elements import find_dtype
from kerncap_stages.validate.perturb.guessed_types import guess_float

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from kerncap_stages.digest import MemoryRef
    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.store import Store
    from kerncap_stages.validate.arguments import Span

    Bytes = npt.NDArray[np.uint8]


def find_lost_outputs(
    store: Store,
    regions: Iterable[tuple[Region, Sequence[Span]]],
    before: Mapping[int, MemoryRef],
    changed: Mapping[int, MemoryRef],
) -> list[str]:
    """Return the names of outputs that hold NaNs and infinities alone now, and numbers in the capture.

    regions: with the parts whose elements have one type. before: states of regions before the captured kernel
    ran, by base address, unless they were as captured. changed: the states after it of those that it changed.
    """
    return [
        label_region(region, parts)
        for region, parts in regions
        if region.base_address in changed
        and _loses_numbers(
            store, region, parts, before.get(region.base_address), changed[region.base_address]
        )
    ]


def label_region(region: Region, parts: Sequence[Span]) -> str:
    """Name a region for people: by the arguments that lead to it."""
    return ", ".join(part.label for part in parts if part.label) or f"region {region.base_address:#x}"


def _loses_numbers(
    store: Store, region: Region, parts: Sequence[Span], pre: MemoryRef | None, post: MemoryRef
) -> bool:
    """Whether the captured kernel gives numbers in a region with the captured inputs, and none now."""
    if region.pre is None or region.post is None:
        return False
    before, after, captured_before, captured_after = (
        store.read_memory(state.digest) for state in (pre or region.pre, post, region.pre, region.post)
    )
    was_lost = False
    for part in parts:
        here = slice(part.start, part.end)
        kind = part.element_type or guess_float(captured_after[here])
        if np.array_equal(before[here], after[here]):
            continue
        if not _writes_no_number(before[here], after[here], kind):
            return False
        was_lost |= not _writes_no_number(captured_before[here], captured_after[here], kind)
    return was_lost


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
