"""What kc-softgpu does: it becomes the program, which then sees the software GPU."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.cli.console import say
from kerncap_stages.machine.cannot_run import explain_start_failure
from kerncap_stages.machine.softgpu import require_rocm
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from kerncap_stages.machine.softgpu import SoftGpu


def run_softgpu(command: Sequence[str], gpu: SoftGpu, *, own_rocm: bool = False) -> NoReturn:
    """Replace this process by the command, which then sees the software GPU.

    Raises UsageError for settings that no GPU can have, DeviceError if the library or ROCm is missing,
    ProgramError if the command cannot be started.
    """
    gpu = replace(gpu, schedule=_add_seed(gpu.schedule, command))
    gpu.check()
    environment = gpu.make_environment()
    if not own_rocm:
        require_rocm()
    try:
        os.execvpe(command[0], list(command), environment)  # noqa: S606 - becoming another program is the point
    except OSError as error:
        raise explain_start_failure(command[0], Path.cwd(), error) from error


def _add_seed(schedule: str | None, command: Sequence[str]) -> str | None:
    """Choose a seed if none was given, the same for all processes, and print how to repeat the run."""
    if schedule != "adversarial":
        return schedule
    chosen = f"{schedule}:{secrets.randbelow(10**6)}"
    words = sys.argv[1 : len(sys.argv) - len(command)]
    words = [chosen if word == schedule else word.replace(f"={schedule}", f"={chosen}") for word in words]
    say(f"to repeat this run: {make_printable(shlex.join(['kc-softgpu', *words, *command]))}")
    return chosen
