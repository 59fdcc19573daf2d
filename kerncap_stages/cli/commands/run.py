"""kc-run: run the program with an edited kernel in the place of the captured one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kerncap_stages.cli.command_line import ProgramCommand, take_command
from kerncap_stages.cli.console import make_epilog, run
from kerncap_stages.cli.options import StoreOption, VersionOption, complete_artifact, make_stage_app

app = make_stage_app()

EXIT_CODES = """\
Exit codes: the program's, or 128 + N if signal N ended it. If the program was
not started: 2 wrong usage; 3 artifact or store missing or damaged; 4 toolchain,
device or system failed; 6 refused: the variant cannot take the kernel's place.
70 is a bug of kerncap-stages."""

VariantOption = Annotated[
    Path,
    typer.Option(
        metavar="PROJECT|FILE",
        help="What runs in the kernel's place: the code object that was built in a project, or this one.",
        show_default=False,
    ),
]
KernelOption = Annotated[
    str | None,
    typer.Option("--kernel", "-k", metavar="NAME", help="Part of the kernel's name, if there are several."),
]
CaptureOption = Annotated[
    str | None,
    typer.Option(
        metavar="ARTIFACT",
        help="The capture of the kernel that FILE replaces. Default: that of the project which holds FILE, "
        "else the latest one of a kernel that FILE has.",
        autocompletion=complete_artifact,
    ),
]
AnyCodeOption = Annotated[
    bool,
    typer.Option(
        "--any-code",
        help="Replace each kernel with this name and these arguments, also in other code objects than the "
        "captured one, as a rebuilt program has them.",
    ),
]
JsonOption = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write what was replaced to FILE, as JSON.")
]


@app.command(
    cls=ProgramCommand,
    epilog=make_epilog(
        "kc-run --variant ./isolated/scale -- ./app --input data\n"
        "kc-run --variant fast.hsaco --kernel scale -- python train.py",
        EXIT_CODES,
    ),
)
def run_program(
    context: typer.Context,
    variant: VariantOption,
    kernel: KernelOption = None,
    capture: CaptureOption = None,
    any_code: AnyCodeOption = False,
    json: JsonOption = None,
    store: StoreOption = None,
    version: VersionOption = False,  # noqa: ARG001
) -> int:
    """Run a program with an edited kernel in the place of the captured one.

    Give the program's command after `--`. Its standard input, its output and its exit code stay its own.
    When it has ended, standard error says in how many dispatches the variant ran.
    """
    from kerncap_stages.cli.flows.run import RunArguments, run_in_program

    return run_in_program(
        store, context.obj, RunArguments(variant, kernel, capture, any_code=any_code, json=json)
    )


def main() -> None:
    """Run the executable."""
    run(app, take_command(sys.argv))
