"""kc-softgpu: run a program on the software GPU."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncap_stages.cli.console import make_epilog, run, say
from kerncap_stages.cli.options import VersionOption, stage_app
from kerncap_stages.errors import UsageError
from kerncap_stages.machine.cannot_run import explain_start_failure
from kerncap_stages.machine.softgpu import TARGETS, SoftGpu, parse_size, require_rocm
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

app = stage_app()


def run_softgpu(command: Sequence[str], gpu: SoftGpu, *, own_rocm: bool = False) -> NoReturn:
    """Replace this process by the command, which then sees the software GPU.

    Raises UsageError for settings that no GPU can have, DeviceError if the library or ROCm is missing,
    ProgramError if the command cannot be started.
    """
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


@app.command(
    epilog=make_epilog("kc-softgpu --target gfx942 --gpus 2 -- ./app --size 100"),
    context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]},
)
def softgpu(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND [ARGS]...", help="The program to run.")],
    target: Annotated[
        str | None, typer.Option(metavar="ISA", help=f"One of {', '.join(TARGETS)}. Default: gfx90a.")
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(metavar="N", help="How many GPUs the program sees. Default: one.")
    ] = None,
    vram: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory of each GPU, for example 8GiB. Default: what this machine can provide.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Interpreter threads. Default: one for each core.")
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Order of waves: hardware-like, or adversarial[:SEED], which provokes data races.",
        ),
    ] = None,
    count: Annotated[
        bool,
        typer.Option("--count", help="Print each kernel's instruction counts by class to standard error."),
    ] = False,
    count_file: Annotated[
        str | None,
        typer.Option(
            "--count-file",
            metavar="FILE",
            help="Append each kernel's instruction counts to FILE, as one JSON object a line.",
        ),
    ] = None,
    lds: Annotated[
        str | None,
        typer.Option(
            metavar="report|stop",
            help="Report accesses beyond a work-group's LDS, or stop at the first. Default: as on hardware, "
            "reads return 0 and writes are dropped.",
        ),
    ] = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Print driver calls, kernels and copies to standard error.")
    ] = False,
    own_rocm: Annotated[
        bool,
        typer.Option(
            "--own-rocm", help="The program has its own ROCm libraries: do not check that ROCm is installed."
        ),
    ] = False,
    version: VersionOption = False,  # noqa: ARG001 - acts when it is parsed
) -> None:
    """Run a program on the software GPU: with the real ROCm, but without a GPU or its driver.

    Its times say nothing about performance on hardware. Its instruction counts can be compared.
    """
    if count and count_file is not None:
        raise UsageError("--count and --count-file exclude each other", hint="give one of them")
    gpu = SoftGpu(
        target=target,
        gpus=gpus,
        vram_bytes=parse_size(vram) if vram is not None else None,
        workers=workers,
        schedule=_add_seed(schedule, command),
        count="-" if count else count_file,
        lds=lds,
        trace=trace,
    )
    run_softgpu(command, gpu, own_rocm=own_rocm)


def main() -> None:
    """Entry point of the executable."""
    run(app)
