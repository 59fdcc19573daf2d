"""How numbers are written for people; units are always there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.manifests import View
    from kerncap_stages.manifests.source import Unedited

_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_TIME_UNITS = ((10**9, "s"), (10**6, "ms"), (10**3, "µs"))


def size(size_bytes: float) -> str:
    """Write a size with three digits that matter: `512 B`, `1.50 KiB`, `3.21 GiB`."""
    unit = 0
    while size_bytes >= 1024 and unit < len(_BINARY_UNITS) - 1:
        size_bytes /= 1024
        unit += 1
    return f"{_three_digits(size_bytes) if unit else int(size_bytes)} {_BINARY_UNITS[unit]}"


def duration(duration_ns: float) -> str:
    """Write a time with three digits that matter: `850 ns`, `12.3 µs`, `1.50 s`."""
    for scale, unit in _TIME_UNITS:
        if duration_ns >= scale:
            return f"{_three_digits(duration_ns / scale)} {unit}"
    return f"{duration_ns:.0f} ns"


def clock(source: str) -> str:
    """Name the clock that times are of, as `TimeSource` has it."""
    names = {"device": "device clock", "imported": "another profiler"}
    return {**names, "software_gpu": "software GPU: no measure of hardware"}.get(source, source)


def rate(size_bytes: float, duration_ns: float) -> str:
    """Write a speed in decimal units, as memory bandwidth is given everywhere."""
    return f"{_three_digits(size_bytes / duration_ns)} GB/s" if duration_ns > 0 else "-"


def age(seconds: float) -> str:
    """Write how long ago something was, in its largest unit."""
    for scale, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= scale:
            return f"{int(seconds // scale)} {unit}"
    return f"{max(0, int(seconds))} s"


def address(value: int) -> str:
    """Write a virtual address: 12 digits cover user space."""
    return f"0x{value:012x}"


def shape(extent: Sequence[int]) -> str:
    """Write a grid or a block."""
    return " x ".join(str(part) for part in extent)


def count(number: int, noun: str) -> str:
    """Write a number of things: `1 region`, `2 regions`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def same_instructions(unedited: Unedited | View) -> str:
    """Write whether a source becomes the captured instructions before it is edited, and why not."""
    if unedited.same_instructions:
        return "yes"
    return f"{'unknown' if unedited.same_instructions is None else 'no'}, because {unedited.why}"


def yes_no(value: bool | None) -> str:
    """Write a fact that may be unknown."""
    return "unknown" if value is None else "yes" if value else "no"


def _three_digits(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
