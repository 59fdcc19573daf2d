"""What the recorder costs a program that launches Triton kernels."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from frame import Figure, Run, at_most, row
from stopwatch import Seconds, Stopwatch
from triton_package import PROGRAMS, install_triton, make_environment
from watching import Silent, number

from kerncap_stages.collect.connection import LibrarySettings
from kerncap_stages.collect.program import ProgramSpec
from kerncap_stages.collect.protocol import Mode, Rule
from kerncap_stages.collect.server import Collector
from kerncap_stages.collect.triton_records import TritonRecords
from kerncap_stages.machine.softgpu import SoftGpu
from kerncap_stages.manifests.capture import NameMatch, Selection

_LAUNCHES = 10_000
_FAR = 1 << 40  # a dispatch that never comes
_ROUNDS = 7
_PAIRS = 11
_MOST_OVERHEAD = 1.03


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
    "a Triton launch whose kernel is selected: how much longer it takes in Python (the driver left out)",
    at_most(3000, "value"),
)
def launch(run: Run) -> Figure:
    place = run.place()
    environment = SoftGpu("gfx90a").make_environment() | make_environment(install_triton(), place)
    command = (sys.executable, str(PROGRAMS / "many_launches.py"), str(_LAUNCHES), "--no-gpu")

    def launch_plainly() -> str:
        variables = {**os.environ, **environment}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        return done.stdout

    ours, theirs = [], []
    for _ in range(_ROUNDS):
        ours.append(number(launch_watched(command, environment), "ns_per_launch"))
        theirs.append(number(launch_plainly(), "ns_per_launch"))
    shutil.rmtree(place)
    # The smallest: other programs on the machine make a launch longer, never shorter.
    return Figure(min(ours) - min(theirs), "ns", note=f"{min(theirs):.0f} ns without")


@row(
    "triton.program",
    "a program of 10,000 Triton launches: recorded / not, with its start; by processor time",
    at_most(_MOST_OVERHEAD),
)
def program(run: Run) -> Figure:
    place = run.place()
    plain = {
        **os.environ,
        **SoftGpu("gfx90a").make_environment(),
        **make_environment(install_triton(), place),
    }
    records = TritonRecords(place / "records")
    selection = Selection(match=NameMatch.SUBSTRING, pattern="tiny_kernel", dispatch=_FAR)
    recorded = {**plain, **records.make_environment(plain, selections=[selection])}
    command = (sys.executable, str(PROGRAMS / "many_launches.py"), str(_LAUNCHES))

    def take(variables: dict[str, str]) -> Seconds:
        watch = Stopwatch()
        subprocess.run(command, env=variables, capture_output=True, check=True)
        return watch.stop()

    take(plain)  # compiles
    ours_s, theirs_s, ratio, cpu_ratio = run.paired(lambda: take(recorded), lambda: take(plain), _PAIRS)
    assert any((place / "records").iterdir()), "nothing was recorded"
    shutil.rmtree(place)
    return Figure(ours_s, "s", theirs_s, ratio, cpu_ratio=cpu_ratio, met=cpu_ratio <= _MOST_OVERHEAD)
