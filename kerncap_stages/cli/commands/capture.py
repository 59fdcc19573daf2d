"""kc-capture: take one dispatch of a kernel out of a running program, with everything that it could reach."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kerncap_stages.cli.command_line import ProgramCommand, resolve_artifact, take_command
from kerncap_stages.cli.console import emit, epilog, run, say, with_typed_store
from kerncap_stages.cli.inputs import artifact_texts
from kerncap_stages.cli.options import (
    AppStdinOption,
    AppStdoutOption,
    JsonOption,
    ProfileArguments,
    ProgramTimeoutOption,
    StoreOption,
    VersionOption,
    checked_count,
    checked_seconds,
    stage_app,
)
from kerncap_stages.digest import Digest
from kerncap_stages.errors import ExitCode, ProgramTimedOut, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kerncap_stages.collect.capture_events import CaptureFailed, ProcessSummary
    from kerncap_stages.collect.program import ProgramSpec
    from kerncap_stages.manifests.capture import Capture, Selection
    from kerncap_stages.store import Store

app = stage_app()
_command: tuple[str, ...] | None = None
_MISSING = (
    "no program and no profile given",
    "`kc-capture --kernel NAME -- ./app`, or `kc-profile -- ./app | kc-capture`",
)


@dataclass(frozen=True)
class CaptureOptions:
    """What is taken, and how."""

    selections: tuple[Selection, ...]
    parents: tuple[Digest, ...] = ()
    with_post: bool = True
    reachable_only: bool = False
    hold: bool = False
    stop_after: bool = False
    wait_s: float = 60.0
    timeout_s: float | None = None
    memory_bytes: int = 512 << 20
    warn: Callable[[str], None] = field(default=lambda _text: None)
    progress: Callable[[int, int], None] = field(default=lambda _done, _total: None)


def run_capture(store: Store, spec: ProgramSpec, options: CaptureOptions) -> Iterator[tuple[Digest, Capture]]:
    """Run a program and yield each capture as soon as it is in the store.

    Raises AnswerIsNo if no dispatch matched, Refused or DeviceError if one did and could not be captured,
    ProgramError if the program failed before.
    """
    from kerncap_stages.collect.capture_builder import CaptureContext, Progress
    from kerncap_stages.collect.capture_events import Captured, CaptureFailed, ProcessSummary, Warned
    from kerncap_stages.collect.capture_session import CaptureSession
    from kerncap_stages.collect.connection import Connection, Settings
    from kerncap_stages.collect.no_capture import why_none
    from kerncap_stages.collect.protocol import MAX_RULES, Mode, WelcomeFlag
    from kerncap_stages.collect.selection import KernelRule
    from kerncap_stages.collect.server import Collector
    from kerncap_stages.manifests.capture import Reach

    if len(options.selections) > MAX_RULES:
        raise UsageError(f"at most {MAX_RULES} kernels can be asked for in one run", hint="use several runs")
    rules = [KernelRule.of(selection) for selection in options.selections]
    flags = (
        (0 if options.with_post else WelcomeFlag.NO_POST)
        | (WelcomeFlag.REACHABLE if options.reachable_only else 0)
        | (WelcomeFlag.HOLD if options.hold else 0)
    )
    settings = Settings(
        Mode.CAPTURE,
        rules=[rule.rule for rule in rules],
        flags=flags,
        wait_ms=int(options.wait_s * 1000),
        memory_bytes=options.memory_bytes,
    )
    context = CaptureContext(
        store=store,
        program=lambda: collector.program.manifest(),
        parents=options.parents,
        with_post=options.with_post,
        reach=Reach.REACHABLE if options.reachable_only else Reach.ALL,
    )

    def session(connection: Connection, put: Callable[[Any], None]) -> CaptureSession:
        return CaptureSession(connection, put, rules, context)

    collector = Collector(spec, settings, session)
    captured = 0
    failures: list[CaptureFailed] = []
    processes: list[ProcessSummary] = []
    wanted = sum(selection.count for selection in options.selections)
    try:
        for event in collector.events(options.timeout_s):
            match event:
                case Captured():
                    captured += 1
                    yield event.digest, event.manifest
                    if options.stop_after and captured >= wanted:
                        collector.stop_program()
                case Progress():
                    options.progress(event.done_bytes, event.total_bytes)
                case CaptureFailed():
                    failures.append(event)
                    options.warn(f"process {event.process_id}: a capture failed: {event.reason}")
                case Warned():
                    options.warn(f"process {event.process_id}: {event.text}")
                case ProcessSummary():
                    processes.append(event)
                    for why in event.unseen():
                        options.warn(f"process {event.process_id}: {why}")
    except KeyboardInterrupt:
        options.warn(f"interrupted: the program is ended; captures made: {captured}")
        raise
    finally:
        collector.close()
        for text in collector.afterwards():
            options.warn(text)
    if captured == 0 and not failures and collector.timed_out:
        raise ProgramTimedOut(
            f"{spec.command[0]} did not dispatch the kernel within {options.timeout_s:g} s, and was ended",
            hint="a larger --timeout, or none",
        )
    if captured == 0:
        raise why_none(options.selections, collector.program, failures, processes)
    if len({process.process_id for process in processes}) <= 1 and captured < wanted:
        options.warn(f"of {wanted} dispatches that were asked for, {captured} were captured")
    if collector.timed_out:
        options.warn(f"the program was ended after {options.timeout_s:g} s")
    elif not options.stop_after and collector.program.exit_code != 0:
        options.warn(f"the program {collector.program.describe_end()} after the capture, which is whole")


@app.command(
    cls=ProgramCommand,
    epilog=epilog("kc-profile -- ./app | kc-capture\nkc-capture --kernel 'scale<float>' -- ./app"),
)
def capture(
    profiles: ProfileArguments = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            "--kernel",
            "-k",
            metavar="NAME",
            help="Part of the kernel's name. Repeat it for a capture of each.",
        ),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="NAME is the whole name, with or without parameters.")
    ] = False,
    regex: Annotated[bool, typer.Option("--regex", help="NAME is a regular expression.")] = False,
    mangled: Annotated[bool, typer.Option("--mangled", help="NAME is a mangled name (a symbol).")] = False,
    rank: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="The N-th kernel of a profile. Else the program's own kernel that takes most time.",
        ),
    ] = None,
    dispatch: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            callback=checked_count,
            help="Which of its dispatches, from 0. Else the first; of a profile, the first in the launch "
            "shape that took most time.",
        ),
    ] = None,
    count: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            callback=checked_count,
            help="How many dispatches to capture, from that one on.",
        ),
    ] = 1,
    every: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, callback=checked_count, help="Capture every N-th dispatch from there."
        ),
    ] = 1,
    grid_blocks: Annotated[
        str | None,
        typer.Option(
            *("--grid-blocks", "--grid"),
            metavar="X[,Y[,Z]]",
            help="Only dispatches of this many work-groups; 0 matches any. --grid is the older spelling.",
        ),
    ] = None,
    block: Annotated[
        str | None,
        typer.Option(metavar="X[,Y[,Z]]", help="Only dispatches of this work-group size; 0 matches any."),
    ] = None,
    post: Annotated[
        bool, typer.Option("--post/--no-post", help="Capture the memory after the kernel, too.")
    ] = True,
    reachable: Annotated[
        bool, typer.Option("--reachable", help="Capture only memory that the kernel's arguments lead to.")
    ] = False,
    hold: Annotated[
        bool,
        typer.Option(
            "--hold",
            help="Keep the program waiting until all is stored, if it may end right after the kernel.",
        ),
    ] = False,
    stop_after: Annotated[
        bool, typer.Option("--stop-after", help="End the program once all is captured.")
    ] = False,
    wait: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            callback=checked_seconds,
            help="How long the program's GPU work may be held up.",
        ),
    ] = 60.0,
    timeout: ProgramTimeoutOption = None,
    max_memory: Annotated[
        int,
        typer.Option(metavar="MIB", min=128, max=1 << 20, help="Maximum memory kc-capture may use, in MiB."),
    ] = 512,
    app_stdout: AppStdoutOption = None,
    app_stdin: AppStdinOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
    version: VersionOption = False,  # noqa: ARG001
) -> ExitCode:
    """Run a program and capture dispatches of a kernel, with all memory that they can reach.

    The program's command stands after `--`, or comes with a profile.
    """
    from kerncap_stages.cli.progress import lines
    from kerncap_stages.collect.capture_request import (
        CaptureRequest,
        from_command,
        from_profile,
        in_main_shapes,
        names_not_profiled,
    )
    from kerncap_stages.collect.selection import shape_of
    from kerncap_stages.manifests.capture import NameMatch, Selection
    from kerncap_stages.manifests.codec import load_as
    from kerncap_stages.manifests.profile import Profile
    from kerncap_stages.store import Store

    if exact + regex + mangled > 1:
        raise UsageError("--exact, --regex and --mangled exclude each other", hint="give one of them")
    match = NameMatch.SUBSTRING
    for wanted, meaning in ((exact, NameMatch.EXACT), (regex, NameMatch.REGEX), (mangled, NameMatch.MANGLED)):
        match = meaning if wanted else match
    opened = Store.open(store)
    names = tuple(kernel or ())
    if any(not name for name in names):
        raise UsageError("--kernel takes a name, not nothing", hint="`kc-profile -- ./app` finds the names")
    requests: list[CaptureRequest] = []
    if _command is not None and not profiles:
        requests.append(from_command(_command, rank, names))
    else:
        for text in artifact_texts(profiles, missing=_MISSING):
            digest = resolve_artifact(opened, text, () if names else ("--kernel", "NAME"))
            profile = load_as(opened, digest, Profile)
            requests.append(from_profile(digest, profile, _command, rank, names, _tell))
    wanted_blocks = None if grid_blocks is None else shape_of("--grid-blocks", "work-groups", grid_blocks)
    block_work_items = None if block is None else shape_of("--block", "work-items", block)
    with lines("capture") as report:
        for request in requests:
            selections = tuple(
                Selection(
                    match=NameMatch.MANGLED if is_symbol else match,
                    pattern=pattern,
                    dispatch=dispatch or 0,
                    count=count,
                    every=every,
                    grid_blocks=wanted_blocks,
                    block_work_items=block_work_items,
                )
                for pattern, is_symbol in request.kernels
            )
            for text in names_not_profiled(request, selections):
                _tell(text)
            if dispatch is None and count == 1:
                selections = in_main_shapes(request, selections, _tell)
            options = CaptureOptions(
                selections=selections,
                parents=request.parents,
                with_post=post,
                reachable_only=reachable,
                hold=hold,
                stop_after=stop_after,
                wait_s=wait,
                timeout_s=timeout,
                memory_bytes=max_memory << 20,
                warn=lambda text: _tell(f"warning: {text}"),
                progress=report,
            )
            spec = replace(request.spec, stdout=app_stdout, stdin=app_stdin)
            for digest, made in run_capture(opened, spec, options):
                say(_summary(made))
                emit(digest, made if json else None)
    return ExitCode.DONE


def _tell(text: str) -> None:
    from kerncap_stages.text.terminal import printable

    say(f"kc-capture: {printable(with_typed_store(text), keep_lines=True)}")


def _summary(capture: Capture) -> str:
    from kerncap_stages.text import formats
    from kerncap_stages.text.terminal import printable

    regions = [region for region in capture.regions if region.pre is not None]
    total = formats.size(sum(region.size_bytes for region in regions))
    text = f"{printable(capture.kernel.demangled_name)}: {formats.count(len(regions), 'region')}, {total}"
    if capture.has_post:
        written = sum(region.written_size_bytes or 0 for region in capture.regions)
        text += f", {formats.size(written)} changed"
    return text + f"; the program was held for {formats.duration(capture.cost.held_ns)}"


def main() -> None:
    """Run the stage."""
    global _command
    _command = take_command(sys.argv)
    run(app)
