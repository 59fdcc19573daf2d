"""What a kernel's arguments tell about memory: where they point, and which type the elements there have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.code.structs import find_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.manifests.memory import Region


@dataclass(frozen=True)
class Pointer:
    """An argument, or a member of one, that holds an address. ``argument``: its number, from 0."""

    label: str  # for people: `result (float*)`
    address: int
    element_type: str | None
    is_const: bool
    argument: int = 0

    @property
    def name(self) -> str:
        """The name without the type."""
        return self.label.partition(" (")[0]


@dataclass(frozen=True)
class Span:
    """A part of a region whose elements have one type; ``element_type`` is None if it is not known."""

    start: int
    end: int
    element_type: str | None
    label: str = ""


def cut_region(region: Region, leading: Sequence[Pointer]) -> tuple[Span, ...]:
    """Cut a region into parts at the addresses that arguments point to.

    If all pointers have the same type, the whole region is one part.
    """
    inside: dict[int, list[Pointer]] = {}
    for pointer in leading:
        offset = pointer.address - region.base_address
        if 0 <= offset < region.size_bytes:
            inside.setdefault(offset, []).append(pointer)
    if not inside:
        return (Span(0, region.size_bytes, None),)
    starts = sorted(inside)
    kinds = {offset: _find_common_type(inside[offset], offset) for offset in starts}
    if len(set(kinds.values())) == 1:
        labels = ", ".join(dict.fromkeys(pointer.label for offset in starts for pointer in inside[offset]))
        return (Span(0, region.size_bytes, kinds[starts[0]], labels),)
    cut = [Span(0, starts[0], None)] if starts[0] else []
    for start, end in zip(starts, [*starts[1:], region.size_bytes], strict=True):
        cut.append(Span(start, end, kinds[start], ", ".join(pointer.label for pointer in inside[start])))
    return tuple(cut)


def _find_common_type(leading: Sequence[Pointer], offset: int) -> str | None:
    kinds = {pointer.element_type for pointer in leading}
    kind = kinds.pop() if len(kinds) == 1 else None
    return kind if kind is None or offset % find_size(kind) == 0 else None
