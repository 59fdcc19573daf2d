"""kc-profile: rank a program's kernels by the GPU time that they take."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kerncap_stages.cli.command_line import MissingDashesError, ProgramCommand, take_command
from kerncap_stages.cli.console import make_epilog, run
from kerncap_stages.cli.options import (
    AppStdinOption,
    AppStdoutOption,
    JsonOption,
    ProgramTimeoutOption,
    StoreOption,
    VersionOption,
    make_stage_app,
)
from kerncap_stages.errors import ExitCode, UsageError

app = make_stage_app()


WordsArgument = Annotated[list[str] | None, typer.Argument(hidden=True)]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Also write the profile as JSON.")
]
TopOption = Annotated[int, typer.Option(metavar="N", min=1, help="How many kernels the table shows.")]
FromRocprofv3Option = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Run no program: read rocprofv3's kernel statistics or kernel trace (CSV). May be repeated.",
    ),
]


@app.command(
    cls=ProgramCommand,
    epilog=make_epilog("kc-profile -- ./app --size 4096\nkc-profile -- ./app | kc-capture | kc-replay"),
)
def profile(
    context: typer.Context,
    words: WordsArgument = None,
    output: OutputOption = None,
    top: TopOption = 20,
    from_rocprofv3: FromRocprofv3Option = None,
    app_stdout: AppStdoutOption = None,
    app_stdin: AppStdinOption = None,
    timeout: ProgramTimeoutOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
    version: VersionOption = False,  # noqa: ARG001
) -> ExitCode:
    """Run a program and rank its kernels by GPU time.

    Give the program's command after `--`. The device's own time stamps time every dispatch. If a signal ends
    the program, the profile holds what ran until then, and the exit code is 5. Prints the profile's digest.
    """
    from kerncap_stages.cli.flows import profile as flow

    program = context.obj
    if words and program is not None:
        raise UsageError(f"kc-profile takes no argument {words[0]!r} before `--`", hint="leave it out")
    if words:
        raise MissingDashesError(f"`--` is missing before the program {words[0]}")
    table = flow.Table(top, output)
    if from_rocprofv3:
        if program is not None:
            raise UsageError(
                "--from-rocprofv3 runs no program, but a command is given", hint="leave one of them out"
            )
        flow.profile_files(store, from_rocprofv3, table, as_json=json)
        return ExitCode.DONE
    if not program:
        raise UsageError("no program given", hint="put its command after `--`: kc-profile -- ./app")
    streams = (app_stdout, app_stdin)
    return flow.profile_program(store, program, table, streams=streams, timeout_s=timeout, as_json=json)


def main() -> None:
    """Run the stage."""
    run(app, take_command(sys.argv))
