"""The page of a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.manifests.memory import ON_HOST_FLAG, READ_MOSTLY_FLAG
from kerncap_stages.pages.kernel import (
    make_arguments_section,
    make_call_section,
    make_kernel_section,
    make_launch_section,
)
from kerncap_stages.pages.parts import list_facts, make_heading, make_table, note
from kerncap_stages.pages.shared import make_environment_section, make_program_section
from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.memory import ModuleVariable, Region, Snapshot


def render(capture: Capture) -> Iterator[RenderableType]:
    """Show the kernel, then the memory, then the dispatch, the program and the machine."""
    yield from make_kernel_section(capture.kernel)
    yield from make_launch_section(capture.launch, capture.kernel)
    yield from make_arguments_section(capture)
    yield from make_call_section(capture.launch)
    yield from _list_regions(capture.regions)
    yield from _list_variables(capture)
    yield from _describe_dispatch(capture)
    yield from make_program_section(capture.program)
    yield from make_environment_section(capture.environment)


def _list_regions(regions: tuple[Region, ...]) -> Iterator[RenderableType]:
    taken = [region for region in regions if region.pre is not None]
    total = formats.format_size(sum(region.size_bytes for region in taken))
    yield make_heading("Regions", f"{formats.count(len(taken), 'region')}, {total}")
    yield make_table(
        [">region", "=address", ">size", "kind", ">device", "changed"],
        (
            (
                str(index),
                formats.format_address(region.base_address),
                formats.format_size(region.size_bytes),
                _name_kind(region),
                "host" if region.device_index is None else str(region.device_index),
                _describe_changes(region),
            )
            for index, region in enumerate(regions)
            if not _is_tag(region)
        ),
    )
    yield from _list_tags("region", regions)
    for index, region in enumerate(regions):
        if region.left_out_reason is not None:
            yield note(f"region {index} was left out: {region.left_out_reason}")


def _name_kind(region: Region) -> str:
    marks = ["read only"] if region.read_only else []
    marks += [flag.replace("_", " ") for flag in region.flags if flag in (ON_HOST_FLAG, READ_MOSTLY_FLAG)]
    return ", ".join((region.kind.value, *marks))


def _describe_changes(part: Snapshot) -> str:
    if part.pre is None:
        return "left out"
    if part.written is None or part.written_size_bytes is None:
        return "not recorded"
    if not part.written:
        return "nothing"
    return f"{formats.format_size(part.written_size_bytes)} in {formats.count(len(part.written), 'range')}"


def _list_variables(capture: Capture) -> Iterator[RenderableType]:
    if not capture.module_variables:
        return
    yield make_heading("Module variables")
    yield make_table(
        ["symbol", "=address", ">size", ">device", "changed"],
        (
            (
                variable.symbol,
                formats.format_address(variable.address),
                formats.format_size(variable.size_bytes),
                str(variable.device_index),
                _describe_changes(variable),
            )
            for variable in capture.module_variables
            if not _is_tag(variable)
        ),
    )
    yield from _list_tags("variable", capture.module_variables)


def _is_tag(part: Region | ModuleVariable) -> bool:
    """Whether it is an object without contents. CUDA's C++ library has dozens of these."""
    return part.size_bytes == 1 and part.pre is not None and part.written is not None and not part.written


def _list_tags(noun: str, parts: Sequence[Region | ModuleVariable]) -> Iterator[RenderableType]:
    count = sum(map(_is_tag, parts))
    if count:
        yield note(f"and {formats.count(count, noun)} of 1 B, which it did not change")


def _describe_dispatch(capture: Capture) -> Iterator[RenderableType]:
    dispatch, cost, selection = capture.dispatch, capture.cost, capture.selection
    took = None
    if dispatch.duration_ns is not None:
        source = "" if dispatch.time_source is None else f" ({formats.name_clock(dispatch.time_source)})"
        took = formats.format_duration(dispatch.duration_ns) + source
    pattern = "" if selection.pattern is None else f" {selection.pattern!r}"
    yield make_heading("Dispatch")
    yield list_facts(
        [
            ("selection", f"{selection.match.value}{pattern}, number {selection.dispatch}"),
            (
                "dispatch",
                f"{dispatch.index_in_process:,} of the process, "
                f"{dispatch.index_of_kernel:,} of those that match",
            ),
            ("where", f"device {dispatch.device_index}, queue {dispatch.queue_index}"),
            (
                "process",
                str(dispatch.process_id) + ("" if dispatch.rank is None else f", rank {dispatch.rank}"),
            ),
            ("took", took),
            ("program held", formats.format_duration(cost.held_ns)),
            (
                "copied",
                f"{formats.format_size(cost.copied_size_bytes)} at "
                f"{formats.format_rate(cost.copied_size_bytes, cost.pre_copy_ns + cost.post_copy_ns)}",
            ),
        ]
    )
