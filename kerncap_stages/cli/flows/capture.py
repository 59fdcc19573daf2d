"""What kc-capture does: for each program, find which dispatches are wanted, and capture them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kerncap_stages.cli.command_line import resolve_artifact
from kerncap_stages.cli.console import emit, say
from kerncap_stages.cli.inputs import read_artifact_texts
from kerncap_stages.cli.progress import show_lines
from kerncap_stages.cli.store_option import add_store_option
from kerncap_stages.collect.capture import CaptureOptions, run_capture
from kerncap_stages.collect.capture_request import (
    CaptureRequest,
    choose_cases,
    choose_from_command,
    choose_from_profile,
    choose_main_shapes,
    warn_of_unprofiled_names,
)
from kerncap_stages.collect.selection import choose_name_match, parse_shape
from kerncap_stages.errors import ExitCode, UsageError
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.capture import NameMatch, Selection
from kerncap_stages.manifests.profile import Profile
from kerncap_stages.store import Store
from kerncap_stages.text import formats
from kerncap_stages.text.configurations import parse_configuration
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kerncap_stages.manifests.capture import Capture

_MISSING = (
    "no program and no profile given",
    "`kc-capture --kernel NAME -- ./app`, or `kc-profile -- ./app | kc-capture`",
)


@dataclass(frozen=True)
class CaptureArguments:
    """The options that say which dispatches to capture, and how."""

    names: tuple[str, ...]
    exact: bool
    regex: bool
    mangled: bool
    rank: int | None
    dispatch: int | None
    count: int
    every: int
    cases: int | None
    grid_blocks: str | None
    block_work_items: str | None
    configuration: str | None
    with_post: bool
    reachable_only: bool
    hold: bool
    stop_after: bool
    wait_s: float
    timeout_s: float | None
    memory_bytes: int
    with_trials: bool
    program_stdout: Path | None
    program_stdin: Path | None

    def make_selections(self, request: CaptureRequest) -> tuple[Selection, ...]:
        """Select the dispatches to capture in one program."""
        grid, block = self.grid_blocks, self.block_work_items
        match = choose_name_match(exact=self.exact, regex=self.regex, mangled=self.mangled)
        selections = tuple(
            Selection(
                match=NameMatch.MANGLED if is_symbol else match or NameMatch.SUBSTRING,
                pattern=pattern,
                dispatch=self.dispatch or 0,
                count=self.cases or self.count,
                every=self.every,
                grid_blocks=None if grid is None else parse_shape("--grid-blocks", "work-groups", grid),
                block_work_items=None if block is None else parse_shape("--block", "work-items", block),
            )
            for pattern, is_symbol in request.kernels
        )
        for text in warn_of_unprofiled_names(request, selections):
            _tell(text)
        if self.cases is not None:
            if self.configuration is not None and request.profile is not None:
                # The profile's shapes and times are those of all configurations.
                _tell("the configuration's first launch shapes are captured: the profile does not list them")
                request = replace(request, profile=None)
            return choose_cases(request, selections, _tell)
        if self.dispatch is None and self.count == 1 and self.configuration is None:
            return choose_main_shapes(request, selections, _tell)
        return selections

    def options(
        self, request: CaptureRequest, report: Callable[[int, int], None], on_killed: Callable[[], None]
    ) -> CaptureOptions:
        """Say how to capture them. ``report``: called with the bytes copied so far, and the total.

        on_killed: called if a signal ended the program before all of them were captured.
        """
        return CaptureOptions(
            selections=self.make_selections(request),
            configuration={} if self.configuration is None else parse_configuration(self.configuration),
            parents=request.parents,
            with_post=self.with_post,
            reachable_only=self.reachable_only,
            hold=self.hold,
            stop_after=self.stop_after,
            wait_s=self.wait_s,
            timeout_s=self.timeout_s,
            memory_bytes=self.memory_bytes,
            with_trials=self.with_trials,
            warn=lambda text: _tell(f"warning: {text}"),
            progress=report,
            on_killed=on_killed,
        )


def capture_dispatches(
    store_folder: Path | None,
    program: tuple[str, ...] | None,
    profiles: Sequence[str] | None,
    arguments: CaptureArguments,
    *,
    as_json: bool,
) -> ExitCode:
    """Capture dispatches of a program, or of the programs of profiles; print the captures' digests.

    Returns PROGRAM if a signal ended a program before all requested dispatches were captured.
    """
    store = Store.open(store_folder)
    if any(not name for name in arguments.names):
        raise UsageError(
            "--kernel needs a name, not an empty text", hint="`kc-profile -- ./app` finds the names"
        )
    is_numbered = arguments.dispatch is not None or arguments.count > 1 or arguments.every > 1
    if arguments.cases is not None and is_numbered:
        raise UsageError(
            "--cases excludes --dispatch, --count and --every: it takes the first dispatch of each shape",
            hint="leave them out",
        )
    if arguments.rank is not None and arguments.names:
        raise UsageError("--rank and --kernel exclude each other", hint="give one of them")
    if arguments.configuration is not None:
        parse_configuration(arguments.configuration)
    # All profiles are read before the first program runs.
    requests = list(_make_requests(store, program, profiles, arguments))
    code = ExitCode.DONE

    def fail() -> None:
        nonlocal code
        code = ExitCode.PROGRAM

    with show_lines("capture") as report:
        for request in requests:
            options = arguments.options(request, report, fail)
            spec = replace(request.spec, stdout=arguments.program_stdout, stdin=arguments.program_stdin)
            for digest, made in run_capture(store, spec, options):
                for line in _summarize(made):
                    say(line)
                emit(digest, made if as_json else None)
    return code


def _make_requests(
    store: Store, program: tuple[str, ...] | None, profiles: Sequence[str] | None, arguments: CaptureArguments
) -> Iterator[CaptureRequest]:
    if program is not None and not profiles:
        yield choose_from_command(program, arguments.rank, arguments.names)
        return
    for text in read_artifact_texts(profiles, missing=_MISSING):
        digest = resolve_artifact(store, text, () if arguments.names else ("--kernel", "NAME"))
        profile = load_as(store, digest, Profile)
        yield choose_from_profile(digest, profile, program, arguments.rank, arguments.names, _tell)


def _tell(text: str) -> None:
    say(f"kc-capture: {make_printable(add_store_option(text), keep_lines=True)}")


def _summarize(capture: Capture) -> Iterator[str]:
    regions = [region for region in capture.regions if region.pre is not None]
    total = formats.format_size(sum(region.size_bytes for region in regions))
    written = sum(region.written_size_bytes or 0 for region in capture.regions)
    text = (
        f"{make_printable(capture.kernel.demangled_name)}: {formats.count(len(regions), 'region')}, {total}"
    )
    if capture.has_post:
        text += f", {formats.format_size(written)} changed"
    yield text + f"; the program was held for {formats.format_duration(capture.cost.held_ns)}"
    if capture.has_post and not written:
        yield (
            "  this dispatch changed nothing, so its results tell little; to capture a later one by itself: "
            f"`--dispatch {capture.dispatch.index_of_kernel + 1}`"
        )
