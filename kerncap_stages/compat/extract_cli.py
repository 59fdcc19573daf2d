"""kc-extract: profile, capture, locate, generate and check in one command."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kerncap_stages.cli.command_line import ProgramCommand, resolve_artifact, take_command
from kerncap_stages.cli.console import epilog, run, say
from kerncap_stages.cli.inputs import artifact_texts, has_piped_input
from kerncap_stages.cli.options import (
    AppStdinOption,
    AppStdoutOption,
    ProfileArguments,
    ProgramTimeoutOption,
    StoreOption,
    VersionOption,
    stage_app,
)
from kerncap_stages.compat.completion import complete_kernel
from kerncap_stages.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kerncap_stages.compat.steps import Extraction, Step
    from kerncap_stages.digest import Digest

app = stage_app()
_command: tuple[str, ...] | None = None


@app.command(
    cls=ProgramCommand,
    epilog=epilog(
        "kc-extract -- ./app                                   the kernel that takes the most time\n"
        "kc-extract --kernel 'scale<float>' --source-dir src -- ./app\n"
        "kc-profile -- ./app | kc-extract | kc-replay"
    ),
)
def extract(
    profiles: ProfileArguments = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            "--kernel",
            "-k",
            metavar="NAME",
            help="Part of the kernel's name. Of those that match, the one that takes most time.",
            autocompletion=complete_kernel,
        ),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="NAME is the whole name, with or without parameters.")
    ] = False,
    regex: Annotated[bool, typer.Option("--regex", help="NAME is a regular expression.")] = False,
    mangled: Annotated[bool, typer.Option("--mangled", help="NAME is a mangled name (a symbol).")] = False,
    no_profile: Annotated[
        bool, typer.Option("--no-profile", help="Run once: take the first dispatch that matches NAME.")
    ] = False,
    dispatch: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Which of its dispatches, from 0. Else the first in the launch shape that took most time.",
        ),
    ] = None,
    grid_blocks: Annotated[
        str | None,
        typer.Option(metavar="X[,Y[,Z]]", help="Only dispatches of this many work-groups; 0 matches any."),
    ] = None,
    block: Annotated[
        str | None,
        typer.Option(metavar="X[,Y[,Z]]", help="Only dispatches of this work-group size; 0 matches any."),
    ] = None,
    source_dir: Annotated[
        list[Path] | None,
        typer.Option("--source-dir", "-s", metavar="DIR", help="Where the source lies. May be repeated."),
    ] = None,
    compile_commands: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="compile_commands.json, or its folder; else looked for near the source."
        ),
    ] = None,
    define: Annotated[
        list[str] | None,
        typer.Option(
            "--define", "-D", metavar="NAME[=VALUE]", help="A macro for the compiler. May be repeated."
        ),
    ] = None,
    compiler: Annotated[
        str | None, typer.Option(metavar="PATH", help="The compiler, instead of the one that the build used.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="The project's folder; else ./isolated/KERNEL."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that were edited.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Do each step again, even if nothing has changed.")
    ] = False,
    validate: Annotated[
        bool, typer.Option("--validate/--no-validate", help="Replay the captured kernel at the end.")
    ] = True,
    stop_after: Annotated[bool, typer.Option("--stop-after", help="End the program once captured.")] = False,
    timeout: ProgramTimeoutOption = None,
    app_stdout: AppStdoutOption = None,
    app_stdin: AppStdinOption = None,
    store: StoreOption = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the digests and steps as JSON instead.")
    ] = False,
    version: VersionOption = False,  # noqa: ARG001 - the option acts by itself
) -> ExitCode:
    """Take a kernel out of a program: profile, capture, locate, generate, and a check that it replays.

    The program's command stands after `--`, or comes with a profile. Prints the digest of the project's
    artifact. Steps that could not do all of their work say why; without source the project replays only.
    """
    from kerncap_stages.collect.program import ProgramSpec
    from kerncap_stages.collect.selection import shape_of
    from kerncap_stages.compat.extraction import run_extract
    from kerncap_stages.compat.steps import ExtractRequest
    from kerncap_stages.store import Store

    if no_profile and kernel is None:
        raise UsageError("--no-profile needs a kernel", hint="kc-extract --no-profile --kernel NAME -- ./app")
    spec = None
    texts: list[str] = []
    if _command is not None:
        if profiles:
            raise UsageError("give a profile or a command after `--`, not both", hint="leave one of them out")
        if not _command:
            raise UsageError("no program given after `--`", hint="kc-extract -- ./app")
        spec = ProgramSpec(_command, stdout=app_stdout, stdin=app_stdin)
    elif profiles or has_piped_input():
        texts = list(artifact_texts(profiles))
    else:
        raise UsageError("no program given", hint="put its command after `--`: kc-extract -- ./app")
    wanted_blocks = None if grid_blocks is None else shape_of("--grid-blocks", "work-groups", grid_blocks)
    wanted_block = None if block is None else shape_of("--block", "work-items", block)
    opened = Store.open(store)
    artifacts: list[Digest | None] = [None]
    if spec is None:
        artifacts = [resolve_artifact(opened, text) for text in texts]
    if output is not None and len(artifacts) > 1:
        raise UsageError("--output names one folder, and there are several profiles", hint="leave it out")
    worst = ExitCode.DONE
    with ExitStack() as stack:
        told = _Told(stack)
        for artifact in artifacts:
            request = ExtractRequest(
                spec=spec,
                profile=artifact,
                profile_first=not no_profile,
                kernel=kernel,
                match=_match(exact, regex, mangled),
                dispatch=dispatch,
                grid_blocks=wanted_blocks,
                block_work_items=wanted_block,
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
                on_start=told.start,
                on_step=told.end,
                on_copied=told.copied,
            )
            extraction = run_extract(opened, request)
            _report(extraction, as_json=json)
            if extraction.failure is not None:
                raise extraction.failure
            if extraction.validation is not None and not extraction.validation.passed:
                worst = ExitCode.ANSWER_IS_NO
    return worst


def main() -> None:
    """Run the command."""
    global _command
    _command = take_command(sys.argv)
    run(app)


def _match(exact: bool, regex: bool, mangled: bool) -> Any:
    from kerncap_stages.manifests.capture import NameMatch

    if exact + regex + mangled > 1:
        raise UsageError("--exact, --regex and --mangled exclude each other", hint="give one of them")
    if not exact + regex + mangled:
        return None
    return NameMatch.EXACT if exact else NameMatch.REGEX if regex else NameMatch.MANGLED


class _Told:
    """What people see while it runs: the steps, and how much of the memory is copied."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._report: Callable[[int, int], None] | None = None

    def start(self, step: str) -> None:
        """A step begins."""
        from kerncap_stages.cli.progress import lines
        from kerncap_stages.compat.steps import CAPTURE

        say(f"{step} ...")
        if step == CAPTURE:
            self._report = self._stack.enter_context(lines("capture"))

    def copied(self, done_bytes: int, total_bytes: int) -> None:
        """So much of a capture is copied."""
        if self._report is not None:
            self._report(done_bytes, total_bytes)

    def end(self, step: Step) -> None:
        """A step ended."""
        from kerncap_stages.text import formats
        from kerncap_stages.text.terminal import printable

        self._stack.close()
        self._report = None
        digest = step.digest.short if step.digest is not None else "-"
        say(f"  {digest:12}  {printable(step.summary)}  ({formats.duration(step.duration_ns)})")
        for note in step.notes:
            say("  note: " + printable(note, keep_lines=True).replace("\n", "\n    "))


def _report(extraction: Extraction, *, as_json: bool) -> None:
    import shlex

    from kerncap_stages.compat.lines import edited_and_built
    from kerncap_stages.text.terminal import printable

    folder = printable(shlex.quote(str(extraction.folder)))
    say(f"project: {folder}")
    if extraction.reproducer.can_recompile:
        editable, _ = edited_and_built([file.path for file in extraction.reproducer.files])
        say(f"next: edit {folder}/{editable}, then make -C {folder} validate-variant bench")
    else:
        say(f"next: make -C {folder} run; it cannot be rebuilt, as the notes above say")
    if as_json:
        import json

        print(json.dumps(extraction_object(extraction)), flush=True)
    else:
        print(extraction.digests["generate"], flush=True)


def extraction_object(extraction: Extraction) -> dict[str, Any]:
    """What ``--json`` prints: one line; durations in nanoseconds."""
    validation = extraction.validation
    return {
        "folder": str(extraction.folder.resolve()),
        "kernel": extraction.capture.kernel.demangled_name,
        "can_recompile": extraction.reproducer.can_recompile,
        "passed": None if validation is None else validation.passed,
        "steps": [
            {
                "name": step.name,
                "digest": None if step.digest is None else str(step.digest),
                "summary": step.summary,
                "notes": list(step.notes),
                "duration_ns": step.duration_ns,
            }
            for step in extraction.steps
        ],
    }
