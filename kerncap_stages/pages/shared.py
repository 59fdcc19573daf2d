"""Sections that several pages share."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from kerncap_stages.manifests.os_strings import to_os_string
from kerncap_stages.pages.parts import Fact, facts, heading, table
from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from kerncap_stages.manifests.environment import Environment, Program
    from kerncap_stages.manifests.kernel import CodeObject
    from kerncap_stages.manifests.source import Unedited
    from kerncap_stages.manifests.timing import TimingSummary


def environment_section(environment: Environment) -> Iterator[RenderableType]:
    """Show the machine and its devices."""
    yield heading("Machine")
    yield facts(
        [
            ("recorded", environment.recorded_at),
            ("back end", environment.backend.value),
            ("system", f"{environment.operating_system}, kernel {environment.kernel_release}"),
            ("driver", environment.driver_version),
            ("runtime", environment.runtime_version),
            ("toolkit", environment.toolkit_version),
        ]
    )
    yield table(
        [">device", "name", "target", ">memory", ">units", "xnack"],
        (
            (
                str(device.index),
                device.name + (" (software GPU)" if device.software else ""),
                device.target,
                formats.size(device.memory_size_bytes),
                str(device.compute_units),
                formats.yes_no(device.xnack),
            )
            for device in environment.devices
        ),
    )


def same_instructions_fact(unedited: Unedited | None) -> str | None:
    """Say whether the unedited source compiles to the captured instructions; None without a source."""
    return None if unedited is None else f"same instructions: {formats.same_instructions(unedited)}"


def program_section(program: Program) -> Iterator[RenderableType]:
    """Show the program's command as one would type it in a shell, and how the program ended."""
    ended: Fact = ("ended", None)
    if program.exit_signal is not None:
        ended = ("ended", f"by signal {program.exit_signal}")
    elif program.exit_code is not None:
        ended = ("ended", f"with exit code {program.exit_code}")
    yield heading("Program")
    yield facts(
        [
            ("command", shlex.join(to_os_string(argument) for argument in program.command)),
            ("folder", to_os_string(program.working_directory)),
            *((name, to_os_string(value)) for name, value in sorted(program.environment.items())),
            ended,
        ]
    )


def code_object_text(code_object: CodeObject) -> str:
    """Describe a code object in one line."""
    return (
        f"{code_object.payload.digest.short}  {code_object.format.value}, {code_object.isa}, "
        f"{formats.size(code_object.size_bytes)}"
    )


def timing_facts(timing: TimingSummary, name: str) -> list[Fact]:
    """Describe repeated dispatches: the median first, then the spread."""
    runs = formats.count(len(timing.samples_ns), "run")
    spread = (
        f"min {formats.duration(timing.min_ns)}, 5 % {formats.duration(timing.p05_ns)}, "
        f"95 % {formats.duration(timing.p95_ns)}, max {formats.duration(timing.max_ns)}, "
        f"standard deviation {formats.duration(timing.stddev_ns)}"
    )
    instructions = None if timing.instructions is None else f"{timing.instructions:,} wave instructions"
    return [
        (name, f"median {formats.duration(timing.median_ns)} over {runs} ({formats.clock(timing.source)})"),
        ("spread", spread),
        ("work", instructions),
    ]
