"""kc-extract: profile, capture, locate, generate and check in one command."""

from __future__ import annotations

import sys
from pathlib import Path
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
    ForceOption,
    GridBlocksOption,
    HoldOption,
    MangledOption,
    MaxMemoryOption,
    PostOption,
    ProfileArguments,
    ProgramTimeoutOption,
    RankOption,
    ReachableOption,
    RegexOption,
    SourceDirOption,
    StoreOption,
    TrialsOption,
    VersionOption,
    WaitOption,
    check_count_option,
    make_stage_app,
    one_value,
)
from kerncap_stages.compat.completion import complete_kernel
from kerncap_stages.errors import ExitCode

app = make_stage_app()


KernelOption = Annotated[
    str | None,
    typer.Option(
        "--kernel",
        "-k",
        metavar="NAME",
        help="Part of the kernel's name. If several match: the one that takes most time.",
        autocompletion=complete_kernel,
    ),
]
NoProfileOption = Annotated[
    bool,
    typer.Option(
        "--no-profile", help="Run the program once, and capture the first dispatch that matches NAME."
    ),
]
DispatchOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        callback=check_count_option,
        help="Which dispatch of the kernel, counted from 0. Default: the first in the launch shape that took "
        "most time.",
    ),
]
CompileCommandsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH", help="compile_commands.json, or its folder. Default: searched near the source."
    ),
]
DefineOption = Annotated[
    list[str] | None,
    typer.Option("--define", "-D", metavar="NAME[=VALUE]", help="A macro for the compiler. May be repeated."),
]
CompilerOption = Annotated[
    str | None, typer.Option(metavar="PATH", help="The compiler. Default: the one that the build used.")
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="The project's folder. Default: ./isolated/KERNEL."),
]
FreshOption = Annotated[
    bool, typer.Option("--fresh", help="Do each step again, even if nothing has changed.")
]
ValidateOption = Annotated[
    bool,
    typer.Option("--validate/--no-validate", help="Replay the captured kernel at the end, and check it."),
]
StopAfterOption = Annotated[
    bool, typer.Option("--stop-after", help="End the program once the dispatch is captured.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print digests and steps as JSON, on one line.")]


@app.command(
    cls=ProgramCommand,
    epilog=make_epilog(
        "kc-extract -- ./app                                   the kernel that takes most time\n"
        "kc-extract --kernel 'scale<float>' --source-dir src -- ./app\n"
        "kc-profile -- ./app | kc-extract | kc-replay"
    ),
)
def extract(
    context: typer.Context,
    profiles: ProfileArguments = None,
    kernel: KernelOption = None,
    exact: ExactOption = False,
    regex: RegexOption = False,
    mangled: MangledOption = False,
    rank: RankOption = None,
    no_profile: NoProfileOption = False,
    dispatch: DispatchOption = None,
    grid_blocks: GridBlocksOption = None,
    block: BlockOption = None,
    configuration: ConfigurationOption = None,
    post: PostOption = True,
    trials: TrialsOption = False,
    reachable: ReachableOption = False,
    hold: HoldOption = False,
    wait: WaitOption = 60.0,
    max_memory: MaxMemoryOption = 512,
    source_dir: SourceDirOption = None,
    compile_commands: CompileCommandsOption = None,
    define: DefineOption = None,
    compiler: CompilerOption = None,
    output: OutputOption = None,
    force: ForceOption = False,
    fresh: FreshOption = False,
    validate: ValidateOption = True,
    stop_after: StopAfterOption = False,
    timeout: ProgramTimeoutOption = None,
    app_stdout: AppStdoutOption = None,
    app_stdin: AppStdinOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
    version: VersionOption = False,  # noqa: ARG001 - the option acts by itself
) -> ExitCode:
    """Take a kernel out of a program: profile, capture, locate, generate, and check that it replays.

    Give the program's command after `--`, or a profile, which records it. Each step says what it could not
    do. If the kernel has no source, the project can be replayed, but not rebuilt from source. Prints the
    digest of the reproducer artifact.
    """
    from kerncap_stages.compat.extracting import ExtractArguments, extract_kernels

    arguments = ExtractArguments(
        kernel=kernel,
        exact=exact,
        regex=regex,
        mangled=mangled,
        dispatch=dispatch,
        rank=rank,
        grid_blocks=one_value("--grid-blocks", grid_blocks),
        block_work_items=block,
        configuration=configuration,
        with_post=post,
        with_trials=trials,
        reachable_only=reachable,
        hold=hold,
        wait_s=wait,
        memory_bytes=max_memory << 20,
        no_profile=no_profile,
        output=output,
        force=force,
        fresh=fresh,
        source_dirs=tuple(source_dir or ()),
        compile_commands=compile_commands,
        defines=tuple(define or ()),
        compiler=compiler,
        stop_after=stop_after,
        timeout_s=timeout,
        validate=validate,
        program_stdout=app_stdout,
        program_stdin=app_stdin,
        as_json=json,
    )
    return extract_kernels(store, context.obj, profiles, arguments)


def main() -> None:
    """Run the command."""
    run(app, take_command(sys.argv))
