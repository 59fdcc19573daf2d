"""kc-run: run the program with an edited kernel in the place of the captured one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kerncap_stages.cli.command_line import ProgramCommand, take_command
from kerncap_stages.cli.console import make_epilog, run
from kerncap_stages.cli.options import (
    RtolOption,
    StoreOption,
    ToleranceOption,
    UlpOption,
    VersionOption,
    check_seconds_option,
    complete_artifact,
    make_stage_app,
)
from kerncap_stages.errors import UsageError

app = make_stage_app()

EXIT_CODES = """\
Exit codes: the program's, or 128 + N if signal N ended it. 1 instead of 0 if
the variant ran in no dispatch. If the program was not run with the variant: 1
the variant is wrong (--check); 2 wrong usage; 3 artifact or store missing or
damaged; 4 toolchain, device or system failed; 5 the program cannot be run, or
failed in the run for --check; 6 refused: the variant cannot take the kernel's
place. 5 also if a timed run ends otherwise than the first run (--compare).
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
    Path | None,
    typer.Option(
        "--json", metavar="FILE", help="Write what was checked, replaced and timed to FILE, as JSON."
    ),
]


CompareOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=10_000,
        help="Afterwards time N more runs with each of both kernels by turns, and compare their wall times. "
        "These runs get no standard input, and their standard output is dropped.",
    ),
]
CheckOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=10_000,
        help="First capture the kernel's first N dispatches in a run of their own, and judge the variant on "
        "each: on the first as kc-validate does, on the others as kc-validate --quick does. If one is FAIL, "
        "the program is not run with the variant: exit code 1.",
    ),
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        callback=check_seconds_option,
        help="End each replay of --check after this time, as kc-validate does. Default: 300. The run that "
        "captures has no limit.",
        show_default=False,
    ),
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
    check: CheckOption = None,
    tolerance: ToleranceOption = None,
    rtol: RtolOption = None,
    ulp: UlpOption = None,
    timeout: TimeoutOption = None,
    compare: CompareOption = None,
    json: JsonOption = None,
    store: StoreOption = None,
    version: VersionOption = False,  # noqa: ARG001
) -> int:
    """Run a program with an edited kernel in the place of the captured one.

    Give the program's command after `--`. Its standard input, its output and its exit code stay its own.
    When it has ended, standard error says in how many dispatches the variant ran. If it ran in none, the
    exit code is 1 instead of 0.
    """
    from kerncap_stages.cli.flows.run import RunArguments, run_in_program

    if check is None and (tolerance, rtol, ulp) != (None, None, None):
        raise UsageError("--tolerance, --rtol and --ulp are bounds of --check", hint="give --check N, too")
    if check is None and timeout is not None:
        raise UsageError(
            "--timeout is the limit of the replays of --check, and nothing is checked",
            hint="give --check N, too; `timeout SECONDS kc-run ...` limits the whole run",
        )
    arguments = RunArguments(
        variant=variant,
        kernel=kernel,
        capture=capture,
        any_code=any_code,
        checked=check,
        bounds=(tolerance, rtol, ulp),
        timeout_s=timeout,
        pairs=compare,
        json=json,
    )
    return run_in_program(store, context.obj, arguments)


def main() -> None:
    """Run the executable."""
    run(app, take_command(sys.argv))
