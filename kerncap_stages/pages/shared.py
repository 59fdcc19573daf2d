"""Sections that several pages share."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from kerncap_stages.manifests.os_strings import to_os_string
from kerncap_stages.pages.parts import Fact, list_facts, make_heading, make_table
from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from kerncap_stages.manifests.environment import Environment, Program
    from kerncap_stages.manifests.kernel import CodeObject
    from kerncap_stages.manifests.source import Unedited
    from kerncap_stages.manifests.timing import TimingSummary


def make_environment_section(environment: Environment) -> Iterator[RenderableType]:
    """Show the machine and its devices."""
    yield make_heading("Machine")
    yield list_facts(
        [
            ("recorded", environment.recorded_at),
            ("back end", environment.backend.value),
            ("system", f"{environment.operating_system}, kernel {environment.kernel_release}"),
            ("driver", environment.driver_version),
            ("runtime", environment.runtime_version),
            ("toolkit", environment.toolkit_version),
        ]
    )
    yield make_table(
        [">device", "name", "target", ">memory", ">units", "xnack"],
        (
            (
                str(device.index),
                device.name + (" (software GPU)" if device.software else ""),
                device.target,
                formats.format_size(device.memory_size_bytes),
                str(device.compute_units),
                formats.format_yes_no(device.xnack),
            )
            for device in environment.devices
        ),
    )


def describe_unedited(unedited: Unedited | None) -> str | None:
    """Say whether the unedited source compiles to the captured instructions; None without a source."""
    return None if unedited is None else f"same instructions: {formats.describe_same_instructions(unedited)}"


def make_program_section(program: Program) -> Iterator[RenderableType]:
    """Show the program's command as one would type it in a shell, and how the program ended."""
    ended: Fact = ("ended", None)
    if program.exit_signal is not None:
        ended = ("ended", f"by signal {program.exit_signal}")
    elif program.exit_code is not None:
        ended = ("ended", f"with exit code {program.exit_code}")
    yield make_heading("Program")
    yield list_facts(
        [
            ("command", shlex.join(to_os_string(argument) for argument in program.command)),
            ("folder", to_os_string(program.working_directory)),
            *((name, to_os_string(value)) for name, value in sorted(program.environment.items())),
            ended,
        ]
    )


def describe_code_object(code_object: CodeObject) -> str:
    """Describe a code object in one line."""
    return (
        f"{code_object.payload.digest.short}  {code_object.format.value}, {code_object.isa}, "
        f"{formats.format_size(code_object.size_bytes)}"
    )


def describe_timing(timing: TimingSummary, name: str) -> list[Fact]:
    """Describe repeated dispatches: the median first, then the spread."""
    runs = formats.count(len(timing.samples_ns), "run")
    spread = (
        f"min {formats.format_duration(timing.min_ns)}, 5 % {formats.format_duration(timing.p05_ns)}, "
        f"95 % {formats.format_duration(timing.p95_ns)}, max {formats.format_duration(timing.max_ns)}, "
        f"standard deviation {formats.format_duration(timing.stddev_ns)}"
    )
    instructions = None if timing.instructions is None else f"{timing.instructions:,} wave instructions"
    median = formats.format_duration(timing.median_ns)
    return [
        (name, f"median {median} over {runs} ({formats.name_clock(timing.source)})"),
        ("spread", spread),
        ("work", instructions),
    ]
