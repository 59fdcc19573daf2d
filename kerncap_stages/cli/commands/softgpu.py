"""kc-softgpu: run a program on the software GPU."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncap_stages.cli.console import epilog, run, say
from kerncap_stages.cli.options import VersionOption, stage_app
from kerncap_stages.errors import UsageError
from kerncap_stages.machine.cannot_run import cannot_run
from kerncap_stages.machine.softgpu import TARGETS, SoftGpu, parse_size, require_rocm
from kerncap_stages.text.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

app = stage_app()


def run_softgpu(command: Sequence[str], gpu: SoftGpu, *, own_rocm: bool = False) -> NoReturn:
    """Become the command, with the software GPU before its eyes.

    Raises UsageError for settings that no GPU can have, DeviceError without the library or without ROCm,
    ProgramError if the command cannot be started.
    """
    gpu.check()
    environment = gpu.environment()
    if not own_rocm:
        require_rocm()
    try:
        os.execvpe(command[0], list(command), environment)  # noqa: S606 - becoming another program is the point
    except OSError as error:
        raise cannot_run(command[0], Path.cwd(), error) from error


def _with_seed(schedule: str | None, command: Sequence[str]) -> str | None:
    """Choose a seed where none was given, one for all processes of the program, and say how to repeat it."""
    if schedule != "adversarial":
        return schedule
    chosen = f"{schedule}:{secrets.randbelow(10**6)}"
    words = sys.argv[1 : len(sys.argv) - len(command)]
    words = [chosen if word == schedule else word.replace(f"={schedule}", f"={chosen}") for word in words]
    say(f"to run it like this again: {printable(shlex.join(['kc-softgpu', *words, *command]))}")
    return chosen


@app.command(
    epilog=epilog("kc-softgpu --target gfx942 --gpus 2 -- ./app --size 100"),
    context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]},
)
def softgpu(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND [ARGS]...", help="What to run.")],
    target: Annotated[
        str | None, typer.Option(metavar="ISA", help=f"One of {', '.join(TARGETS)}; else gfx90a.")
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(metavar="N", help="How many GPUs the program sees; else one.")
    ] = None,
    vram: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Memory of each GPU, as 8GiB; else what this machine can back."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Interpreter threads; else one for each core.")
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Order of waves: hardware-like, or adversarial[:SEED], which makes data races show.",
        ),
    ] = None,
    count: Annotated[
        bool,
        typer.Option("--count", help="Print the instructions of each kernel, by class, to standard error."),
    ] = False,
    count_file: Annotated[
        str | None,
        typer.Option(
            "--count-file", metavar="FILE", help="The same as JSON, one object a line, appended to FILE."
        ),
    ] = None,
    lds: Annotated[
        str | None,
        typer.Option(
            metavar="report|stop",
            help="Report accesses beyond a work-group's LDS, or stop at the first. Else as on hardware: "
            "reads give 0, and writes are dropped.",
        ),
    ] = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Print driver calls, kernels and copies to standard error.")
    ] = False,
    own_rocm: Annotated[
        bool,
        typer.Option("--own-rocm", help="The program brings its own ROCm libraries: do not look for others."),
    ] = False,
    version: VersionOption = False,  # noqa: ARG001 - acts when it is parsed
) -> None:
    """Run a program on a GPU made of software: real ROCm, no GPU, no driver.

    Its time stamps mean nothing for performance; instruction counts do.
    """
    if count and count_file is not None:
        raise UsageError("--count and --count-file exclude each other", hint="give one of them")
    gpu = SoftGpu(
        target=target,
        gpus=gpus,
        vram_bytes=parse_size(vram) if vram is not None else None,
        workers=workers,
        schedule=_with_seed(schedule, command),
        count="-" if count else count_file,
        lds=lds,
        trace=trace,
    )
    run_softgpu(command, gpu, own_rocm=own_rocm)


def main() -> None:
    """Entry point of the executable."""
    run(app)
