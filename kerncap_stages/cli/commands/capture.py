"""kc-capture: capture dispatches of a kernel in a running program, with all memory that it could reach."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kerncap_stages.cli.command_line import ProgramCommand, take_command
from kerncap_stages.cli.console import epilog, run
from kerncap_stages.cli.options import (
    AppStdinOption,
    AppStdoutOption,
    JsonOption,
    ProfileArguments,
    ProgramTimeoutOption,
    StoreOption,
    VersionOption,
    check_count_option,
    check_seconds_option,
    stage_app,
)
from kerncap_stages.errors import ExitCode

app = stage_app()


KernelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kernel",
        "-k",
        metavar="NAME",
        help="Part of the kernel's name. Repeat it to capture several kernels.",
    ),
]
ExactOption = Annotated[
    bool, typer.Option("--exact", help="NAME is the whole name, with or without parameters.")
]
RegexOption = Annotated[bool, typer.Option("--regex", help="NAME is a regular expression.")]
MangledOption = Annotated[bool, typer.Option("--mangled", help="NAME is a mangled name (a symbol).")]
RankOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="The N-th kernel of the profile. Default: the program's own kernel that takes most time.",
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
GridBlocksOption = Annotated[
    str | None,
    typer.Option(
        *("--grid-blocks", "--grid"),
        metavar="X[,Y[,Z]]",
        help="Only dispatches of this many work-groups; 0 matches any. --grid is the older spelling.",
    ),
]
BlockOption = Annotated[
    str | None,
    typer.Option(metavar="X[,Y[,Z]]", help="Only dispatches of this work-group size; 0 matches any."),
]
PostOption = Annotated[
    bool, typer.Option("--post/--no-post", help="Also capture the memory as the kernel leaves it.")
]
ReachableOption = Annotated[
    bool, typer.Option("--reachable", help="Capture only memory that the kernel's arguments point to.")
]
HoldOption = Annotated[
    bool,
    typer.Option(
        "--hold",
        help="Keep the program waiting until the capture is stored. Needed if the program may end right "
        "after the kernel.",
    ),
]
StopAfterOption = Annotated[
    bool, typer.Option("--stop-after", help="End the program once everything is captured.")
]
WaitOption = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        callback=check_seconds_option,
        help="The longest time for which the program's GPU work may be held.",
    ),
]
MaxMemoryOption = Annotated[
    int,
    typer.Option(metavar="MIB", min=128, max=1 << 20, help="Maximum memory kc-capture may use, in MiB."),
]


@app.command(
    cls=ProgramCommand,
    epilog=epilog("kc-profile -- ./app | kc-capture\nkc-capture --kernel 'scale<float>' -- ./app"),
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
    grid_blocks: GridBlocksOption = None,
    block: BlockOption = None,
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
    from kerncap_stages.cli.flows.capture import CaptureArguments, capture_dispatches, name_match

    arguments = CaptureArguments(
        names=tuple(kernel or ()),
        match=name_match(exact=exact, regex=regex, mangled=mangled),
        rank=rank,
        dispatch=dispatch,
        count=count,
        every=every,
        grid_blocks=grid_blocks,
        block_work_items=block,
        with_post=post,
        reachable_only=reachable,
        hold=hold,
        stop_after=stop_after,
        wait_s=wait,
        timeout_s=timeout,
        memory_bytes=max_memory << 20,
        program_stdout=app_stdout,
        program_stdin=app_stdin,
    )
    return capture_dispatches(store, context.obj, profiles, arguments, as_json=json)


def main() -> None:
    """Run the stage."""
    run(app, take_command(sys.argv))
