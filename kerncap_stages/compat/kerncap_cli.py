"""kerncap: the documented command, with its verbs, flags, result lines and exit codes."""

from __future__ import annotations

import os
import shlex
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kerncap_stages.cli.console import say
from kerncap_stages.cli.options import (
    ForceOption,
    ProgramTimeoutOption,
    ReplayTimeoutOption,
    VersionOption,
    make_stage_app,
)
from kerncap_stages.compat.arguments import check_language
from kerncap_stages.compat.client import Kerncap
from kerncap_stages.compat.completion import complete_kernel
from kerncap_stages.compat.documented import (
    DumpOption,
    HipLaunchOption,
    HsacoOption,
    IterationsOption,
    ProjectArgument,
    make_documented_epilog,
    print_json,
    replay_command,
    run_documented,
)
from kerncap_stages.compat.lines import NO_COMPILE_COMMAND, make_profile_table, name_edited_and_built
from kerncap_stages.compat.statistics import make_profile_object
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from kerncap_stages.compat.results import ExtractResult
    from kerncap_stages.compat.steps import Step

app = make_stage_app("Profile a program, extract a kernel of it, replay and validate it alone.")

JsonFlag = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Show more.")]


@app.callback(
    epilog=make_documented_epilog(
        "kerncap profile -- ./app\n"
        "kerncap extract scale --cmd './app --size 512' --source-dir ./src --output ./isolated/scale\n"
        "kerncap validate ./isolated/scale"
    )
)
def kerncap(
    context: typer.Context,
    verbose: VerboseOption = False,
    version: VersionOption = False,  # noqa: ARG001 - acts when it is parsed
) -> None:
    """Profile a program, extract a kernel of it, replay and validate it alone."""
    context.obj = verbose


CmdArgument = Annotated[list[str], typer.Argument(metavar="-- CMD...", help="The program and its arguments.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Also write the profile as JSON.")
]


@app.command(
    epilog=make_documented_epilog(
        "kerncap profile -- ./app --size 512\nkerncap profile --output p.json -- ./app"
    ),
    context_settings={"allow_interspersed_args": False},
)
def profile(
    cmd: CmdArgument,
    output: OutputOption = None,
    timeout: ProgramTimeoutOption = None,
    json: JsonFlag = False,
) -> None:
    """Run a program and rank its kernels by GPU time."""
    kernels = Kerncap().profile(
        cmd, output, timeout=timeout, warn=lambda text: say(f"kerncap: warning: {text}")
    )
    if json:
        print_json(make_profile_object(cmd, kernels))
    else:
        print("\n".join(make_profile_table(kernels)))
    if output is not None:
        say(f"Profile saved to {output}")


KernelNameArgument = Annotated[
    str,
    typer.Argument(
        metavar="KERNEL",
        help="Part of the kernel's name. The first dispatch that matches is captured.",
        autocompletion=complete_kernel,
        show_default=False,
    ),
]
CmdOption = Annotated[
    str,
    typer.Option(
        "--cmd",
        metavar="COMMAND",
        help="The program and its arguments, quoted as one word.",
        show_default=False,
    ),
]
SourceDirOption = Annotated[
    Path | None, typer.Option("--source-dir", metavar="DIR", help="Folder with the kernel's source.")
]
ExtractOutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="The project's folder. Default: ./isolated/KERNEL."),
]
LanguageOption = Annotated[
    str | None,
    typer.Option("--language", metavar="hip|cuda|triton", help="The kernel's language. Default: detected."),
]
DispatchOption = Annotated[
    int,
    typer.Option(
        "--dispatch", metavar="N", min=-1, help="Which dispatch of the kernel, from 0; -1 is the first."
    ),
]
DefinesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--defines", "-D", metavar="NAME[=VALUE]", help="A macro for the compiler. May be repeated."
    ),
]
TritonBackendOption = Annotated[
    str,
    typer.Option(
        "--triton-backend",
        metavar="hsa|python",
        help="Accepted for compatibility; both capture at the HSA level.",
    ),
]


@app.command(
    epilog=make_documented_epilog(
        "kerncap extract scale --cmd './app --size 512' --source-dir ./src -D USE_HIP\n"
        "kerncap extract gemm_kernel --cmd ./app --dispatch 2"
    )
)
def extract(
    context: typer.Context,
    kernel_name: KernelNameArgument,
    cmd: CmdOption,
    source_dir: SourceDirOption = None,
    output: ExtractOutputOption = None,
    language: LanguageOption = None,
    dispatch: DispatchOption = -1,
    defines: DefinesOption = None,
    timeout: ProgramTimeoutOption = 300.0,
    triton_backend: TritonBackendOption = "hsa",
    force: ForceOption = False,
    json: JsonFlag = False,
) -> None:
    """Capture a kernel and make a project of it.

    Captures one dispatch, with all memory that it can reach.
    """
    result = Kerncap().extract(
        kernel_name,
        cmd,
        source_dir,
        output,
        language,
        dispatch,
        defines,
        timeout,
        triton_backend,
        force=force,
        on_step=partial(_say_step, verbose=context.obj),
    )
    if os.environ.get("KERNCAP_SNAPSHOT_CHUNK_BYTES"):
        say("note: KERNCAP_SNAPSHOT_CHUNK_BYTES has no effect: kc-capture --max-memory bounds every copy")
    for note in check_language(language, triton_backend):
        say(f"note: {note}")
    if json:
        print_json(asdict(result))
    else:
        _report(result)


@app.command(
    epilog=make_documented_epilog(
        "kerncap replay ./isolated/scale --iterations 100\n"
        "kerncap replay ./isolated/scale --hsaco optimized.hsaco"
    )
)
def replay(
    reproducer_dir: ProjectArgument,
    hsaco: HsacoOption = None,
    iterations: IterationsOption = 1,
    dump_output: DumpOption = False,
    hip_launch: HipLaunchOption = False,
    timeout: ReplayTimeoutOption = 300.0,
    json: JsonFlag = False,
) -> int:
    """Run a project's captured dispatch again.

    The dispatch runs alone, at its original addresses.
    """
    return replay_command(
        reproducer_dir, hsaco, iterations, dump=dump_output, hip=hip_launch, timeout=timeout, as_json=json
    )


ToleranceOption = Annotated[
    float | None,
    typer.Option(
        "--tolerance",
        "-t",
        metavar="X",
        min=0.0,
        help="Largest absolute error. Without --tolerance and --rtol, every byte must be the same.",
    ),
]
RtolOption = Annotated[
    float | None,
    typer.Option("--rtol", metavar="X", min=0.0, help="Largest error relative to the captured value."),
]
DtypeOption = Annotated[
    str | None,
    typer.Option(metavar="TYPE", help="With a bound: the type of the outputs, for example fp32 or bf16."),
]
ValidateVerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Print a line for each region.")]


@app.command(
    epilog=make_documented_epilog(
        "kerncap validate ./isolated/scale\n"
        "kerncap validate ./isolated/scale --hsaco optimized.hsaco --tolerance 1e-3 --rtol 1e-2"
    )
)
def validate(
    context: typer.Context,
    reproducer_dir: ProjectArgument,
    tolerance: ToleranceOption = None,
    rtol: RtolOption = None,
    hsaco: HsacoOption = None,
    dtype: DtypeOption = None,
    verbose: ValidateVerboseOption = False,
    timeout: ReplayTimeoutOption = 300.0,
    json: JsonFlag = False,
) -> int:
    """Compare a rebuilt kernel with the captured one.

    Compares what it writes with what the captured kernel wrote in the program.
    """
    result = Kerncap().validate(reproducer_dir, tolerance, rtol, hsaco, dtype=dtype, timeout=timeout)
    for note in result.notes:
        say(f"note: {make_printable(note)}")
    if json:
        print_json(asdict(result))
        return 0 if result.passed else 1
    if verbose or context.obj or not result.passed:
        print("\n".join(result.details))
    print(result.result_line)
    return 0 if result.passed else 1


def main() -> None:
    """Run the command."""
    run_documented(app)


def _say_step(step: Step, *, verbose: bool) -> None:
    if verbose or step.digest is not None:
        digest = f" [{step.digest.short}]" if step.digest is not None else ""
        say(f"{step.name}{digest}: {make_printable(step.summary)}")
    for note in step.notes:
        say(f"  note: {make_printable(note, keep_lines=True)}")


def _report(result: ExtractResult) -> None:
    print(f"Output: {make_printable(result.output_dir)}  has_source: {result.has_source}")
    folder = make_printable(shlex.quote(result.output_dir))
    for note in result.notes:
        if note.startswith(NO_COMPILE_COMMAND):
            print(note)
    print(f"  cd {folder}\n  make run                 # replay the captured kernel")
    if result.can_recompile:
        edited, built = name_edited_and_built(result.generated_files)
        print(
            f"  # edit {edited} and {'triton_sources/' if edited.endswith('.py') else 'deps/'}\n"
            f"  make recompile           # rebuild this kernel alone: {built}\n"
            "  make run-variant         # replay the rebuilt kernel"
        )
    print("  kerncap validate .       # is it right?")
