"""kc-softgpu: run a program on the software GPU."""

from __future__ import annotations

from typing import Annotated

import typer

from kerncap_stages.cli.console import make_epilog, run
from kerncap_stages.cli.options import VersionOption, make_stage_app
from kerncap_stages.errors import UsageError
from kerncap_stages.machine.softgpu import TARGETS, SoftGpu, parse_size

app = make_stage_app()


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
    from kerncap_stages.cli.flows.softgpu import run_softgpu

    gpu = SoftGpu(
        target=target,
        gpus=gpus,
        vram_bytes=parse_size(vram) if vram is not None else None,
        workers=workers,
        schedule=schedule,
        count="-" if count else count_file,
        lds=lds,
        trace=trace,
    )
    run_softgpu(command, gpu, own_rocm=own_rocm)


def main() -> None:
    """Entry point of the executable."""
    run(app)
