"""kc-capture: capture dispatches of a kernel in a running program, with all memory that it could reach."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kerncap_stages.cli.command_line import ProgramCommand, take_command
from kerncap_stages.cli.console import make_epilog, run
from kerncap_stages.cli.options import (
    AppStdinOption,
    AppStdoutOption,
    BlockOption,
    ConfigurationOption,
    ExactOption,
    GridBlocksOption,
    HoldOption,
    JsonOption,
    MangledOption,
    MaxMemoryOption,
    PostOption,
    ProfileArguments,
    ProgramTimeoutOption,
    RankOption,
    ReachableOption,
    RegexOption,
    StoreOption,
    TrialsOption,
    VersionOption,
    WaitOption,
    check_count_option,
    make_stage_app,
    one_value,
)
from kerncap_stages.errors import ExitCode

app = make_stage_app()


KernelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kernel",
        "-k",
        metavar="NAME",
        help="Part of the kernel's name. Repeat it to capture several kernels.",
    ),
]
DispatchOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        callback=check_count_option,
        help="Which dispatch of the kernel, counted from 0. Default: the first; with a profile and --count 1 "
        "the first in the launch shape that took most time.",
    ),
]
CountOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        callback=check_count_option,
        help="How many dispatches to capture, beginning with --dispatch.",
    ),
]
EveryOption = Annotated[
    int,
    typer.Option(
        metavar="N", min=1, callback=check_count_option, help="With --count: capture every N-th dispatch."
    ),
]
CasesOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=16,
        help="Capture one dispatch of each of N launch shapes: with a profile, those that took most time; "
        "without one, or with --configuration, the first N. kc-generate makes one project of them.",
    ),
]
StopAfterOption = Annotated[
    bool, typer.Option("--stop-after", help="End the program once everything is captured.")
]


@app.command(
    cls=ProgramCommand,
    epilog=make_epilog("kc-profile -- ./app | kc-capture\nkc-capture --kernel 'scale<float>' -- ./app"),
)
def capture(
    context: typer.Context,
    profiles: ProfileArguments = None,
    kernel: KernelOption = None,
    exact: ExactOption = False,
    regex: RegexOption = False,
    mangled: MangledOption = False,
    rank: RankOption = None,
    dispatch: DispatchOption = None,
    count: CountOption = 1,
    every: EveryOption = 1,
    cases: CasesOption = None,
    grid_blocks: GridBlocksOption = None,
    block: BlockOption = None,
    configuration: ConfigurationOption = None,
    trials: TrialsOption = False,
    post: PostOption = True,
    reachable: ReachableOption = False,
    hold: HoldOption = False,
    stop_after: StopAfterOption = False,
    wait: WaitOption = 60.0,
    timeout: ProgramTimeoutOption = None,
    max_memory: MaxMemoryOption = 512,
    app_stdout: AppStdoutOption = None,
    app_stdin: AppStdinOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
    version: VersionOption = False,  # noqa: ARG001
) -> ExitCode:
    """Run a program and capture dispatches of a kernel, with all memory that they can reach.

    Give the program's command after `--`, or a profile, which records it. Prints one digest for each capture.
    If a signal ends the program before all requested dispatches are captured, the exit code is 5.
    """
    from kerncap_stages.cli.flows.capture import CaptureArguments, capture_dispatches

    arguments = CaptureArguments(
        names=tuple(kernel or ()),
        exact=exact,
        regex=regex,
        mangled=mangled,
        rank=rank,
        dispatch=dispatch,
        count=count,
        every=every,
        cases=cases,
        grid_blocks=one_value("--grid-blocks", grid_blocks),
        block_work_items=block,
        configuration=configuration,
        with_post=post,
        reachable_only=reachable,
        hold=hold,
        stop_after=stop_after,
        wait_s=wait,
        timeout_s=timeout,
        memory_bytes=max_memory << 20,
        with_trials=trials,
        program_stdout=app_stdout,
        program_stdin=app_stdin,
    )
    return capture_dispatches(store, context.obj, profiles, arguments, as_json=json)


def main() -> None:
    """Run the stage."""
    run(app, take_command(sys.argv))
