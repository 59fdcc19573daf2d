"""The page of a profile: the kernels in order of their time, each with a bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.pages.parts import list_facts, make_heading, make_table, note
from kerncap_stages.pages.shared import make_environment_section, make_program_section
from kerncap_stages.text import formats
from kerncap_stages.text.configurations import format_configuration
from kerncap_stages.text.kernel_names import shorten
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from kerncap_stages.manifests.profile import KernelStatistics, Profile
    from kerncap_stages.manifests.triton import TritonConfiguration

_MAX_LISTED = 20
_MAX_SHAPES = 8  # of a kernel
_BAR_WIDTH, _SHORT_BAR_WIDTH = 20, 8
# What a terminal narrower than each of these loses, in turn: launch and standard deviation; half of the bar;
# minimum and maximum; the bar.
_FULL = 150
_WIDE = 120
_MIDDLE = 105
_NARROW = 75
_INDENT = 2  # of `table`
_BETWEEN = 3  # characters between two columns
_MIN_NAME = 12


def render(profile: Profile) -> Iterator[RenderableType]:
    """Show the top kernels, then the run of the program."""
    yield from make_kernels_section(profile, _MAX_LISTED)
    yield from _make_configurations_section(profile)
    yield from _make_shapes_section(profile)
    wall = None if profile.wall_ns is None else formats.format_duration(profile.wall_ns)
    processes = None if profile.processes is None else str(profile.processes)
    yield list_facts([("wall time", wall), ("processes", processes)])
    if profile.program is not None:
        yield from make_program_section(profile.program)
    if profile.environment is not None:
        yield from make_environment_section(profile.environment)


def make_kernels_section(profile: Profile, longest: int) -> Iterator[RenderableType]:
    """Rank the kernels, at most ``longest`` of them."""
    total_ns = sum(kernel.total_ns for kernel in profile.kernels)
    source = profile.imported_from or formats.name_clock(profile.time_source)
    yield make_heading("Kernels", f"{formats.format_duration(total_ns)} of GPU time ({source})")
    yield _Ranking(profile.kernels[:longest])
    if len(profile.kernels) > longest:
        yield note(f"and {formats.count(len(profile.kernels) - longest, 'more kernel')}: see `--json`")
    if profile.trials:
        trials = formats.count(profile.trials, "trial")
        time = formats.format_duration(profile.trials_ns)
        yield note(f"not in the table: {trials} ({time}), with which an autotuner timed configurations")


def _make_shapes_section(profile: Profile) -> Iterator[RenderableType]:
    """List the launch shapes of kernels that have several: one name may have many configurations."""
    rows = []
    for rank, kernel in enumerate(profile.kernels[:_MAX_LISTED], 1):
        shapes = list(enumerate(kernel.launch_shapes))
        shown = [each for each in shapes if each[0] < _MAX_SHAPES or each[0] == kernel.last_shape]
        for number, shape in shown if len(shapes) > 1 else ():
            mean_ns = shape.total_ns / shape.calls
            rows.append(
                (
                    str(rank),
                    _format_sizes(shape.grid_blocks),
                    _format_sizes(shape.block_work_items),
                    formats.format_size(shape.lds_bytes),
                    f"{shape.calls:,}",
                    formats.format_duration(mean_ns),
                    "used last" if number == kernel.last_shape else "",
                )
            )
    if rows:
        yield make_heading(
            "Launch shapes", "of kernels that have several: for kc-capture --grid-blocks and --block"
        )
        yield make_table([">rank", ">grid", ">block", ">LDS", ">calls", ">mean", ""], rows)


def _make_configurations_section(profile: Profile) -> Iterator[RenderableType]:
    """List the functions of Triton kernels, and the configurations that ran."""
    rows = []
    for rank, kernel in enumerate(profile.kernels[:_MAX_LISTED], 1):
        for made in kernel.triton[:_MAX_SHAPES]:
            mean_ns = None if made.calls is None or made.total_ns is None else made.total_ns / made.calls
            rows.append(
                (
                    str(rank),
                    made.function,
                    describe_configuration(made),
                    "-" if made.calls is None else f"{made.calls:,}",
                    "-" if mean_ns is None else formats.format_duration(mean_ns),
                )
            )
    if rows:
        yield make_heading("Triton kernels", "the configurations that ran")
        yield make_table([">rank", "function", "configuration", ">calls", ">mean"], rows)


def describe_configuration(made: TritonConfiguration) -> str:
    """Write what the function was compiled with."""
    return format_configuration(made.values)


def _name_kernel(kernel: KernelStatistics) -> str:
    """Name a kernel: one of Triton by its function, and by its configuration if there is one only."""
    if not kernel.triton:
        return kernel.name
    names = {made.function for made in kernel.triton}
    name = kernel.name if len(names) > 1 else next(iter(names))
    if len(kernel.triton) > 1:
        return f"{name} ({len(kernel.triton)} configurations)"
    return f"{name} ({describe_configuration(kernel.triton[0])})"


class _Ranking:
    """The table, as wide as the terminal, with one line for each kernel. The name gets the remaining width.

    Names that are too long are shortened; ``--json`` prints them whole.
    """

    def __init__(self, kernels: Sequence[KernelStatistics]) -> None:
        self._kernels = kernels

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        columns = [">rank", ">share", "", ">total", ">calls", ">mean", ">min", ">max", ">std dev", "launch"]
        dropped = set() if width >= _FULL else {">std dev", "launch"}
        dropped |= set() if width >= _MIDDLE else {">min", ">max"}
        dropped |= set() if width >= _NARROW else {""}
        bar_width = _BAR_WIDTH if width >= _WIDE else _SHORT_BAR_WIDTH
        kept = [number for number, column in enumerate(columns) if column not in dropped]
        rows = [
            [_make_cells(rank, kernel, bar_width)[number] for number in kept]
            for rank, kernel in enumerate(self._kernels, 1)
        ]
        titles = [columns[number] for number in kept]
        used = sum(
            max(map(len, [title.removeprefix(">"), *(row[place] for row in rows)])) + _BETWEEN
            for place, title in enumerate(titles)
        )
        name_width = max(width - used - _INDENT, _MIN_NAME)
        names = [make_printable(_name_kernel(kernel)) for kernel in self._kernels]
        yield make_table(
            [*titles, "kernel"],
            ([*row, shorten(name, name_width)] for row, name in zip(rows, names, strict=True)),
        )


def _make_cells(rank: int, kernel: KernelStatistics, bar_width: int) -> tuple[str, ...]:
    times = (kernel.mean_ns, kernel.min_ns, kernel.max_ns, kernel.stddev_ns)
    return (
        str(rank),
        f"{kernel.share:.1%}",
        _draw_bar(kernel.share, bar_width),
        formats.format_duration(kernel.total_ns),
        f"{kernel.calls:,}",
        *map(formats.format_duration, times),
        _describe_launch(kernel),
    )


def _describe_launch(kernel: KernelStatistics) -> str:
    """Describe the first launch shape, and say how many others there are."""
    if not kernel.launch_shapes:
        return ""
    first = kernel.launch_shapes[0]
    others = len(kernel.launch_shapes) - 1
    text = f"{_format_sizes(first.grid_blocks)} of {_format_sizes(first.block_work_items)}"
    return f"{text}, +{others}" if others else text


def _format_sizes(sizes: tuple[int, int, int]) -> str:
    dimensions = 3 if sizes[2] != 1 else 2 if sizes[1] != 1 else 1
    return ",".join(str(size) for size in sizes[:dimensions])


def _draw_bar(share: float, width: int) -> str:
    eighths = round(share * width * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
