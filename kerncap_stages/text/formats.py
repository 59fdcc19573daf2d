"""Writes numbers for people, always with their unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.manifests import View
    from kerncap_stages.manifests.replay import LaunchShape
    from kerncap_stages.manifests.source import Unedited

_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_TIME_UNITS = ((10**9, "s"), (10**6, "ms"), (10**3, "µs"))


def format_size(size_bytes: float) -> str:
    """Write a size with three significant digits: `512 B`, `1.50 KiB`, `3.21 GiB`."""
    unit = 0
    while size_bytes >= 1024 and unit < len(_BINARY_UNITS) - 1:
        size_bytes /= 1024
        unit += 1
    return f"{_format_three_digits(size_bytes) if unit else int(size_bytes)} {_BINARY_UNITS[unit]}"


def format_duration(duration_ns: float) -> str:
    """Write a time with three significant digits: `850 ns`, `12.3 µs`, `1.50 s`."""
    for scale, unit in _TIME_UNITS:
        if duration_ns >= scale:
            return f"{_format_three_digits(duration_ns / scale)} {unit}"
    return f"{duration_ns:.0f} ns"


def name_clock(source: str) -> str:
    """Name the clock that times were measured with. `source` is a value of `TimeSource`."""
    names = {"device": "device clock", "imported": "another profiler"}
    return {**names, "software_gpu": "software GPU: says nothing about hardware"}.get(source, source)


def format_rate(size_bytes: float, duration_ns: float) -> str:
    """Write a memory bandwidth, in decimal units as is usual for it."""
    return f"{_format_three_digits(size_bytes / duration_ns)} GB/s" if duration_ns > 0 else "-"


def format_age(seconds: float) -> str:
    """Write how long ago something happened, in the largest unit that fits."""
    for scale, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= scale:
            return f"{int(seconds // scale)} {unit}"
    return f"{max(0, int(seconds))} s"


def format_address(value: int) -> str:
    """Write a virtual address with at least 12 digits, which cover user space."""
    return f"0x{value:012x}"


def format_shape(extent: Sequence[int]) -> str:
    """Write the extent of a grid or a block."""
    return " x ".join(str(part) for part in extent)


def tell_variant_shape(shape: LaunchShape | View) -> str:
    """Say how a variant was launched, where that is not as captured."""
    return f"the variant was launched as {describe_shape(shape)}"


def describe_shape(shape: LaunchShape | View) -> str:
    """Describe a launch: `8 x 1 x 1 blocks of 256 x 1 x 1, 512 bytes of dynamic LDS`."""
    blocks, block = format_shape(shape.grid_blocks), format_shape(shape.block_work_items)
    lds = count(shape.dynamic_lds_bytes, "byte")
    return f"{blocks} blocks of {block}, {lds} of dynamic LDS (CUDA: shared memory)"


def count(number: int, noun: str) -> str:
    """Write a number of things: `1 region`, `2 regions`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def list_first(names: Sequence[str], most: int) -> str:
    """List the first few names, and say how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def describe_same_instructions(unedited: Unedited | View) -> str:
    """Write whether the unedited source compiles to the captured instructions, and if not, why."""
    if unedited.same_instructions:
        return "yes"
    return f"{'unknown' if unedited.same_instructions is None else 'no'}, because {unedited.why}"


def format_yes_no(value: bool | None) -> str:
    """Write a fact that may be unknown."""
    return "unknown" if value is None else "yes" if value else "no"


def _format_three_digits(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
