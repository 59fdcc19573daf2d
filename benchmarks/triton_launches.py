"""What the recorder costs a program that launches Triton kernels."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from frame import Figure, Run, at_most, row
from stopwatch import Seconds, Stopwatch
from triton_package import PROGRAMS, install_triton, make_environment
from watching import Silent, number

from kerncap_stages.collect.connection import LibrarySettings
from kerncap_stages.collect.program import ProgramSpec
from kerncap_stages.collect.protocol import Mode, Rule
from kerncap_stages.collect.server import Collector
from kerncap_stages.machine.softgpu import SoftGpu
from kerncap_stages.manifests.capture import NameMatch, Selection

if TYPE_CHECKING:
    from collections.abc import Callable

_LAUNCHES = 10_000
_FAR = 1 << 40  # a dispatch that never comes
_ROUNDS = 9


def launch_watched(command: tuple[str, ...], environment: dict[str, str]) -> str:
    """Run the program while its own kernel is selected: each launch asks whether a capture may follow."""
    with tempfile.NamedTemporaryFile() as printed:
        collector = Collector(
            ProgramSpec(command, environment=environment, stdout=Path(printed.name)),
            LibrarySettings(Mode.CAPTURE, rules=[Rule(first=_FAR)]),
            Silent,
            [Selection(match=NameMatch.SUBSTRING, pattern="tiny_kernel", dispatch=_FAR)],
        )
        try:
            for _ in collector.read_events(300):
                pass
        finally:
            collector.close()
        return Path(printed.name).read_text()


@row(
    "triton.launch",
    "10,000 Triton launches in Python, their kernel selected / without us; the driver left out",
    at_most(1.03),
)
def launch(run: Run) -> Figure:
    place = run.place()
    environment = SoftGpu("gfx90a").make_environment() | make_environment(install_triton(), place)
    command = (sys.executable, str(PROGRAMS / "many_launches.py"), str(_LAUNCHES), "--no-gpu")

    def taken(run_it: Callable[[], str]) -> Seconds:
        watch = Stopwatch()
        return watch.stop(number(run_it(), "ns_per_launch") / 1e9)

    def launch_plainly() -> str:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    ours, theirs, ratio, _ = run.paired(
        lambda: taken(lambda: launch_watched(command, environment)), lambda: taken(launch_plainly), _ROUNDS
    )
    return Figure(ours * 1e9, "ns", theirs * 1e9, ratio)
