"""Ranks kernels by the time that they took."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.manifests.capture import Case, NameMatch
from kerncap_stages.manifests.kernel import count_blocks
from kerncap_stages.manifests.profile import KernelStatistics, LaunchShape
from kerncap_stages.manifests.timing import TimeSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kerncap_stages.collect.statistics import ShapeKey, Tally
    from kerncap_stages.manifests.base import Dim3

# The profile's name for kernels that the program did not load with the runtime's loader: they have no names.
UNLISTED = "(kernels of no loaded code object)"
_OF_RUNTIME = "__amd_rocclr_"
_SEVERAL = 2
# Two times of the software GPU are close if the longer is at most _CLOSE_TIMES the shorter plus _CLOSE_NS:
# they change with the load of the machine, and the first dispatch of a kernel also reads its code.
_CLOSE_TIMES, _CLOSE_NS = 2, 1_000_000


def rank_kernels(tallies: Mapping[tuple[str | None, str], Tally]) -> tuple[KernelStatistics, ...]:
    """Turn tallies, by (mangled, demangled) name, into statistics in the order of total time."""
    everything = sum(tally.total_ns for tally in tallies.values())
    order = sorted(tallies.items(), key=lambda item: (-item[1].total_ns, item[0][1], item[0][0] or ""))
    return tuple(
        KernelStatistics(
            name=demangled,
            mangled_name=mangled,
            calls=tally.calls,
            total_ns=tally.total_ns,
            mean_ns=tally.mean_ns,
            min_ns=tally.min_ns,
            max_ns=tally.max_ns,
            stddev_ns=tally.stddev_ns,
            share=tally.total_ns / everything if everything else 0.0,
            launch_shapes=tuple(
                _describe_shape(shape, *tally.shapes[shape]) for shape in _sort_shapes(tally)
            ),
            last_shape=None if tally.last is None else _sort_shapes(tally).index(tally.last[1]),
        )
        for (mangled, demangled), tally in order
    )


# HIP loads code for other GPUs without an error; only the launches fail.
NONE_OF_THE_PROGRAM = (
    "the program ran no kernel of its own; if it has kernels, check for failed launches, "
    "and that they were built for this GPU (--offload-arch)"
)


def list_program_kernels(kernels: Sequence[KernelStatistics]) -> list[KernelStatistics]:
    """Return the kernels that a user can edit; if there are none, all kernels."""
    return [kernel for kernel in kernels if is_of_the_program(kernel)] or list(kernels)


def is_of_the_program(kernel: KernelStatistics) -> bool:
    """Whether a user can edit a kernel: it has a name, and is not one of HIP's own."""
    return not kernel.name.startswith((_OF_RUNTIME, UNLISTED))


def choose_name(kernel: KernelStatistics) -> tuple[str, NameMatch]:
    """How a capture asks for a kernel: by its mangled name, which not every profiler knows."""
    if kernel.mangled_name:
        return kernel.mangled_name, NameMatch.MANGLED
    return kernel.name, NameMatch.EXACT


@dataclass(frozen=True)
class MainShape:
    """The launch shape in which a kernel spent the most time, and its ``share`` of the kernel's time."""

    grid_blocks: Dim3
    block_work_items: Dim3
    share: float
    is_largest_of_close: bool = False  # other shapes took about as long; this one launched most work-items


def find_main_shape(kernel: KernelStatistics, source: TimeSource) -> MainShape | None:
    """Find the launch shape in which a kernel spent the most time; None if it had only one shape.

    On the software GPU, several shapes may take about as long. Then the shape that launched the most
    work-items is chosen, because that is the same in every run.
    """
    cases = list_cases(kernel, source)
    if len(cases) < _SEVERAL:
        return None
    software = source is TimeSource.SOFTWARE_GPU
    longest = max(case.total_ns for case in cases)
    least_ns = (longest - _CLOSE_NS) / _CLOSE_TIMES if software else longest
    close = [case for case in cases if case.total_ns >= least_ns]
    chosen = close[0] if software else cases[0]
    share = chosen.total_ns / max(1, sum(case.total_ns for case in cases))
    return MainShape(chosen.grid_blocks, chosen.block_work_items, share, software and len(close) > 1)


def list_cases(kernel: KernelStatistics, source: TimeSource) -> tuple[Case, ...]:
    """List a kernel's launch shapes: the one with the most time first, then the next.

    On the software GPU the one that launched the most work-items comes first: times change from run to run.
    """
    cases: dict[tuple[Dim3, Dim3], Case] = {}
    for each in kernel.launch_shapes:  # shapes that differ only in LDS are added up: selections ignore LDS
        shape = (each.grid_blocks, each.block_work_items)
        known = cases.get(shape)
        calls, total_ns = (0, 0) if known is None else (known.calls, known.total_ns)
        cases[shape] = Case(
            grid_blocks=shape[0],
            block_work_items=shape[1],
            calls=calls + each.calls,
            total_ns=total_ns + each.total_ns,
        )

    def weigh(case: Case) -> tuple[int, tuple[Dim3, Dim3]]:
        work_items = case.calls * math.prod(case.grid_blocks) * math.prod(case.block_work_items)
        weight = work_items if source is TimeSource.SOFTWARE_GPU else case.total_ns
        return weight, (case.grid_blocks, case.block_work_items)

    return tuple(sorted(cases.values(), key=weigh, reverse=True))


def has_shape(kernel: KernelStatistics, grid_blocks: Dim3 | None, block_work_items: Dim3 | None) -> bool:
    """Whether a kernel was launched in a shape. None, or 0 for one dimension, matches any size."""

    def fits(wanted: Dim3 | None, real: Dim3) -> bool:
        return wanted is None or all(each in (0, size) for each, size in zip(wanted, real, strict=True))

    if grid_blocks is None and block_work_items is None:
        return True
    return any(
        fits(grid_blocks, shape.grid_blocks) and fits(block_work_items, shape.block_work_items)
        for shape in kernel.launch_shapes
    )


def _sort_shapes(tally: Tally) -> list[ShapeKey]:
    return sorted(tally.shapes, key=lambda shape: (-tally.shapes[shape][0], shape.grid_work_items))


def _describe_shape(shape: ShapeKey, calls: int, total_ns: int) -> LaunchShape:
    return LaunchShape(
        grid_work_items=shape.grid_work_items,
        grid_blocks=count_blocks(shape.grid_work_items, shape.block_work_items),
        block_work_items=shape.block_work_items,
        lds_bytes=shape.lds_bytes,
        calls=calls,
        total_ns=total_ns,
    )
