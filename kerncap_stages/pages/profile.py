"""The page of a profile: kernels by the time they took, with a bar each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.pages import formats
from kerncap_stages.pages.parts import facts, heading, note, table
from kerncap_stages.pages.shared import environment_section, program_section

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from kerncap_stages.manifests.profile import Profile

_LONGEST_LIST = 20
_BAR_WIDTH = 20


def render(profile: Profile) -> Iterator[RenderableType]:
    """Show the top kernels, then the run that they are from."""
    yield from kernels_section(profile, _LONGEST_LIST)
    wall = None if profile.wall_ns is None else formats.duration(profile.wall_ns)
    processes = None if profile.processes is None else str(profile.processes)
    yield facts([("wall time", wall), ("processes", processes)])
    if profile.program is not None:
        yield from program_section(profile.program)
    if profile.environment is not None:
        yield from environment_section(profile.environment)


def kernels_section(profile: Profile, longest: int) -> Iterator[RenderableType]:
    """Rank the kernels, at most ``longest`` of them."""
    total_ns = sum(kernel.total_ns for kernel in profile.kernels)
    source = profile.imported_from or profile.time_source.value
    yield heading("Kernels", f"{formats.duration(total_ns)} of GPU time ({source})")
    yield table(
        [">rank", ">share", "", ">total", ">calls", ">mean", ">min", ">max", "kernel"],
        (
            (
                str(rank),
                f"{kernel.share:.1%}",
                _bar(kernel.share),
                formats.duration(kernel.total_ns),
                f"{kernel.calls:,}",
                formats.duration(kernel.mean_ns),
                formats.duration(kernel.min_ns),
                formats.duration(kernel.max_ns),
                kernel.name,
            )
            for rank, kernel in enumerate(profile.kernels[:longest], start=1)
        ),
    )
    if len(profile.kernels) > longest:
        yield note(f"and {formats.count(len(profile.kernels) - longest, 'more kernel')}: see `--json`")


def _bar(share: float) -> str:
    eighths = round(share * _BAR_WIDTH * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
