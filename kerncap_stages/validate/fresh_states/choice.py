"""Chooses the inputs that get fresh values: all of those that fit, and parts of larger ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kerncap_stages.validate.arguments import CHUNK_BYTES, choose_window

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kerncap_stages.manifests.memory import Region
    from kerncap_stages.validate.arguments import Pointer, Span

# Parts of inputs that do not fit get this share of the limit: each byte costs time in each of several states.
_SHARE_OF_PARTS = 4


@dataclass(frozen=True)
class InputChoice:
    """The inputs that get fresh values, everywhere or in parts, and those that keep the captured ones."""

    fresh: list[Region]
    kept: list[Region] = field(default_factory=list)
    in_parts: Mapping[int, int] = field(default_factory=dict)  # bytes that are fresh, by base address

    def cut(
        self, region: Region, parts: tuple[Span, ...], leading: Iterable[Pointer], seed: int
    ) -> tuple[Span, ...]:
        """Cut the parts of an input to what gets fresh values. ``leading``: pointers, also into others."""
        base = region.base_address
        if base not in self.in_parts:
            return parts
        starts = [each.address - base for each in leading if region.contains(each.address)]
        return choose_window(parts, starts, self.in_parts[base], seed ^ base)

    @property
    def read_in_parts(self) -> list[Region]:
        """The inputs that are fresh in parts, and of which the dispatch changed less than half."""
        return [
            each
            for each in self.fresh
            if each.base_address in self.in_parts and 2 * (each.written_size_bytes or 0) < each.size_bytes
        ]

    @property
    def fresh_bytes(self) -> int:
        """How many bytes get fresh values at most."""
        return sum(self.in_parts.get(each.base_address, each.size_bytes) for each in self.fresh)


def choose_inputs(
    regions: Sequence[Region], limit_bytes: int, too_large: Sequence[Region] = ()
) -> InputChoice:
    """Choose the inputs that get fresh values, of ``limit_bytes`` together.

    too_large: further inputs, which are kept.

    Those that the dispatch did not change come first. Each one that does not fit gets fresh values in an
    equal part of a share of the limit, or of what is left, in whole chunks; it is kept if that is less than
    a chunk.
    """
    order = sorted(regions, key=lambda each: bool(each.written_size_bytes))
    reserve_bytes = limit_bytes // _SHARE_OF_PARTS
    whole, left = _find_fitting(order, limit_bytes)
    has_large_read = any(not each.written_size_bytes and each.base_address not in whole for each in order)
    if has_large_read and reserve_bytes >= CHUNK_BYTES:
        whole, left = _find_fitting(order, limit_bytes - reserve_bytes)
        left += reserve_bytes
    left = min(left, max(reserve_bytes, CHUNK_BYTES))
    large = [each for each in order if each.base_address not in whole][: left // CHUNK_BYTES]
    in_parts = {}
    for number, region in enumerate(sorted(large, key=lambda each: each.size_bytes)):
        share = left // (len(large) - number) // CHUNK_BYTES * CHUNK_BYTES
        if region.size_bytes <= share:
            whole.add(region.base_address)
        else:
            in_parts[region.base_address] = share
        left -= min(region.size_bytes, share)
    chosen = whole | in_parts.keys()
    return InputChoice(
        [each for each in regions if each.base_address in chosen],
        [*(each for each in regions if each.base_address not in chosen), *too_large],
        in_parts,
    )


def _find_fitting(regions: Sequence[Region], limit_bytes: int) -> tuple[set[int], int]:
    """Return the base addresses of the regions that fit, in this order, and the bytes that are left."""
    chosen: set[int] = set()
    for region in regions:
        if region.size_bytes <= limit_bytes:
            limit_bytes -= region.size_bytes
            chosen.add(region.base_address)
    return chosen, limit_bytes
