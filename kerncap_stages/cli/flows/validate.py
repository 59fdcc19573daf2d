"""What kc-validate does: judge the variant for each capture of a project, and print the verdicts."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.cli.artifacts import find_captures, find_held_out, list_for_user, require_kernels_of
from kerncap_stages.cli.console import emit, say
from kerncap_stages.cli.flows.validate_inputs import refuse_contradictions, require_captures, require_inputs
from kerncap_stages.cli.inputs import read_artifact_texts
from kerncap_stages.cli.shapes import read_variant_shape
from kerncap_stages.errors import DeviceError, ExitCode, UsageError
from kerncap_stages.manifests import open_view
from kerncap_stages.pages.scope import (
    describe_earlier,
    describe_fixed,
    describe_limit,
    format_tried,
    needs_earlier,
)
from kerncap_stages.pages.verdict import format_footer, format_lines
from kerncap_stages.project.artifacts import find_project
from kerncap_stages.project.built import (
    describe_changes,
    explain_judged,
    find_unbuilt_edits,
    require_current,
    suggest_build,
    warn_of_stale_variant,
)
from kerncap_stages.project.folder import find_project_folder
from kerncap_stages.project.variants import find_built_variant
from kerncap_stages.text.terminal import make_printable
from kerncap_stages.validate.engine import judge_now
from kerncap_stages.validate.request import find_verdict, make_settings, read_request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests import View
    from kerncap_stages.manifests.validation import Validation
    from kerncap_stages.project.cases import Case
    from kerncap_stages.project.folder import Project
    from kerncap_stages.replay.variant_shape import VariantShape
    from kerncap_stages.store import Store
    from kerncap_stages.validate.request import JudgeSettings

# Also what the command makes of its options, so that it imports this module alone.
__all__ = [
    "ValidateArguments",
    "make_settings",
    "read_variant_shape",
    "refuse_contradictions",
    "require_inputs",
    "validate_variants",
]
_MISSING = (
    "no project and no capture given",
    "`kc-validate ./isolated/KERNEL` checks what was rebuilt there; `kc-store ls` lists captures",
)


@dataclass(frozen=True)
class ValidateArguments:
    """What to judge and what to show. ``baseline``: judge the captured kernel itself.

    captures: digests of the captures that verdicts must be on; empty: any.
    held_out: further captures of the kernel, which the project does not hold.
    shape: how the variant is launched; None: as the file beside it says, or as captured.
    """

    captures: tuple[str, ...]
    held_out: tuple[str, ...]
    variant: Path | None
    shape: VariantShape | None
    baseline: bool
    settings: JudgeSettings
    report: Path | None
    verbose: bool
    fresh: bool
    as_json: bool


def validate_variants(
    store_folder: Path | None, artifacts: Sequence[str] | None, arguments: ValidateArguments
) -> ExitCode:
    """Judge the variant of each project or capture; returns ANSWER_IS_NO if one verdict is FAIL.

    Raises DeviceError at the end if a report cannot be written.
    """
    worst = ExitCode.DONE
    unwritten: DeviceError | None = None
    for text in read_artifact_texts(artifacts, missing=_MISSING):
        store, captures = find_captures(store_folder, text)
        project = find_project(text)
        require_captures(text, captures, arguments.captures)
        variant = _choose_variant(find_project_folder(Path(text)), arguments)
        if variant is None and arguments.shape is not None:
            raise UsageError(
                "--grid-blocks, --block and --lds say how a variant is launched, and there is none",
                hint="give one with --variant, or build the project's",
            )
        judged = [(store, each) for each in captures]
        judged += find_held_out(store_folder, arguments.held_out, captures)
        cases = _read_cases(judged, len(captures)) if len(judged) > 1 else []
        passed = []
        for number, (store, capture) in enumerate(judged):
            digest, verdict = _judge(store, capture, variant, project, arguments)
            if arguments.report is not None:
                below = "" if len(judged) == 1 else str(number)
                unwritten = _write_report(store, digest, arguments.report, below) or unwritten
            if cases:
                say(f"{make_printable(cases[number].title)}:")
            for line in format_lines(verdict, verbose=arguments.verbose):
                say(line)
            if (unlisted := list_for_user(store, digest, store_folder)) is not None:
                say(f"note: {make_printable(unlisted)}")
            is_only = not cases or not cases[number].launch
            for line in _describe_scope(store, capture, digest, verdict, text, is_only=is_only):
                say(make_printable(line))
            say(format_footer(verdict))
            emit(digest, store.get(digest) if arguments.as_json else None)
            passed.append(bool(verdict.passed))
        if cases:
            _summarise(cases, passed)
        if not all(passed):
            worst = ExitCode.ANSWER_IS_NO
    if unwritten is not None:
        raise unwritten
    return worst


def _describe_scope(
    store: Store, capture: Digest, digest: Digest, verdict: Validation | View, text: str, *, is_only: bool
) -> Iterator[str]:
    """Yield what a verdict covers. ``text``: the artifact as given; is_only: no other launch is judged."""
    with open_view(store, capture) as captured:
        lines = [
            format_tried(verdict),
            describe_fixed(verdict, captured) if is_only else None,
            describe_limit(verdict, _suggest_full(text)),
        ]
    if needs_earlier(verdict):
        # Few commands need it.
        from kerncap_stages.cli.flows.known_verdicts import MAX_EARLIER
        from kerncap_stages.validate.timed.known_verdict import list_earlier_verdicts

        known = islice(list_earlier_verdicts(store, capture, digest, verdict), MAX_EARLIER)
        lines.append(describe_earlier(verdict, ((each.digest.short, each.made) for each in known)))
    yield from (line for line in lines if line is not None)


def _suggest_full(text: str) -> str:
    """Return the command as it was typed, without the options that leave states out."""
    typed = [word for word in sys.argv[1:] if word not in ("--quick", "--captured-values")]
    return shlex.join(["kc-validate", *typed, *([] if text in typed else [text])])


def _read_cases(judged: Sequence[tuple[Store, Digest]], in_project: int) -> list[Case]:
    """Read what tells several captures apart. Raises UsageError if one is of another kernel."""
    from kerncap_stages.project.cases import read_cases  # not for one capture, whose verdict may be known

    cases = read_cases(judged, in_project)
    require_kernels_of(cases)
    return cases


def _summarise(cases: Sequence[Case], passed: Sequence[bool]) -> None:
    from kerncap_stages.project.cases import summarise_cases

    for line in summarise_cases(cases, passed):
        say(make_printable(line))


def _choose_variant(folder: Path, arguments: ValidateArguments) -> Path | None:
    """Choose the code object: the one of --variant, else the one built in the project.

    Returns None for the captured kernel. Raises UsageError if sources were edited but nothing was built,
    Refused if they were edited after the build.
    """
    if arguments.baseline:
        return None
    built = None if arguments.variant else find_built_variant(folder)
    if built is not None:
        require_current(folder, built)
        say(f"note: {make_printable(explain_judged(folder, built))}")
    variant = arguments.variant or built
    if variant is not None:
        for note in warn_of_stale_variant(folder, variant):
            say(f"note: {make_printable(note)}")
    elif unbuilt := find_unbuilt_edits(folder):
        raise UsageError(
            f"{describe_changes(folder, unbuilt)}, but no code object was built from it",
            hint=f"{suggest_build(folder, unbuilt)}, or --baseline to check the captured kernel",
        )
    return variant


def _judge(
    store: Store,
    capture: Digest,
    variant: Path | None,
    project: Project | None,
    arguments: ValidateArguments,
) -> tuple[Digest, Validation | View]:
    request = read_request(store, capture, variant, arguments.settings, arguments.shape, project)
    known = None if arguments.fresh else find_verdict(store, request)
    return known or judge_now(store, request, fresh=arguments.fresh)


def _write_report(store: Store, verdict: Digest, folder: Path, below: str) -> DeviceError | None:
    """Write a report; returns an error if it cannot be written: the verdict is shown all the same."""
    # The models and the templates are needed for a report only.
    from kerncap_stages.cli.flows.report import write_report_of

    try:
        say(f"report: {write_report_of(store, verdict, folder, below)}")
    except OSError as error:
        return DeviceError(
            f"cannot write the report in {folder}: {error.strerror}",
            hint="free space on that disk, or name another folder, and run it again: the verdict is known",
        )
    return None
