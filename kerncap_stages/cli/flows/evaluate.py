"""What kc-evaluate does: list the variants, evaluate them, show each, and rank them in a table."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from kerncap_stages.cli.artifacts import find_captures, find_held_out, list_for_user
from kerncap_stages.cli.console import emit, open_messages, say
from kerncap_stages.cli.flows.evaluate_progress import EvaluateProgress
from kerncap_stages.cli.named_output import open_output
from kerncap_stages.cli.store_option import add_store_option
from kerncap_stages.errors import ArtifactNotFound, ExitCode, StoreError, UsageError
from kerncap_stages.evaluate.candidates import list_candidates, read_line
from kerncap_stages.evaluate.ends import EvaluationInterrupted, EvaluationNotPublished
from kerncap_stages.evaluate.engine import EvaluateSettings, run_evaluate
from kerncap_stages.evaluate.subject import Subject
from kerncap_stages.manifests.evaluation import Outcome
from kerncap_stages.pages.evaluation import make_ranks, point_to_reasons, summarise
from kerncap_stages.pages.scope import name_left_out
from kerncap_stages.project.artifacts import find_project
from kerncap_stages.store import Store
from kerncap_stages.store.copying import copy_closure
from kerncap_stages.text.terminal import make_printable
from kerncap_stages.validate.request import make_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from io import FileIO
    from pathlib import Path

    from kerncap_stages.cli.evaluate_options import JudgingOptions
    from kerncap_stages.evaluate.candidates import Candidate
    from kerncap_stages.manifests.evaluation import EvaluatedVariant, Evaluation
_STANDARD_INPUT = "-"
_MAX_SHOWN = 20
_LOG_WIDTH = 1000  # a row of the table is one line there, as each variant is


@dataclass(frozen=True)
class EvaluateArguments:
    """What to evaluate and what to show. ``flags``: for the compiler, as one text."""

    subject: str
    variants: tuple[str, ...]
    flags: str
    held_out: tuple[str, ...]
    judging: JudgingOptions
    seed: int | None
    on: str | None
    fresh: bool
    lines: Path | None
    verbose: bool
    as_json: bool


def evaluate_variants(store_folder: Path | None, arguments: EvaluateArguments) -> ExitCode:
    """Evaluate the variants; returns DONE if one is right.

    After Ctrl-C, shows and publishes what was judged, and raises KeyboardInterrupt.
    """
    subject = find_subject(store_folder, arguments.subject, arguments.held_out)
    candidates, total = _list(arguments)
    settings = make_evaluate_settings(
        arguments.judging, seed=arguments.seed, fresh=arguments.fresh, on=arguments.on
    )
    interrupted: EvaluationInterrupted | None = None
    unpublished: EvaluationNotPublished | None = None
    with Lines(arguments.lines) as lines, EvaluateProgress(total, verbose=arguments.verbose) as shown:

        def report(number: int, variant: EvaluatedVariant) -> None:
            shown.add(variant)
            lines.write({"number": number, **variant.model_dump(mode="json")})

        try:
            # Ray prints what it has to say, and standard output is for the digest.
            with contextlib.redirect_stdout(sys.stderr):
                digest, evaluation = run_evaluate(subject, candidates, settings, report)
        except EvaluationInterrupted as error:
            interrupted = error
            digest, evaluation = error.digest, error.evaluation
        except EvaluationNotPublished as error:
            unpublished = error
    if unpublished is not None:  # what was judged is known here alone
        show_ranks(unpublished.evaluation)
        raise unpublished
    show_ranks(evaluation)
    say(add_store_option(point_to_reasons(evaluation, digest)))
    if (limit := describe_left_out(arguments.judging, arguments.subject)) is not None:
        say(limit)
    if (unlisted := list_for_user(subject.store, digest, store_folder)) is not None:
        say(f"note: {make_printable(unlisted)}")
    emit(digest, subject.store.get(digest) if arguments.as_json else None)
    if interrupted is not None:
        judged = f"{len(evaluation.variants):,}" + ("" if total is None else f" of {total:,}")
        say(f"interrupted: {judged} variants were judged; the same command goes on with the others")
        raise KeyboardInterrupt
    return _choose_exit_code(evaluation)


def describe_left_out(judging: JudgingOptions, subject: str) -> str | None:
    """Say that right variants were not judged in full; None if they were."""
    left_out = name_left_out(perturb=not judging.quick, fresh_values=judging.fresh_values)
    if left_out is None:
        return None
    return (
        f"Not full: {left_out}; before you use a right one: "
        f"`kc-validate {shlex.quote(make_printable(subject))} --variant FILE`"
    )


def make_evaluate_settings(
    judging: JudgingOptions, *, seed: int | None = None, fresh: bool = False, on: str | None = None
) -> EvaluateSettings:
    """Make settings of the options. Raises UsageError for invalid bounds or an unknown element type."""
    judge = make_settings(
        *(judging.tolerance, judging.rtol, judging.ulp, judging.dtype),
        timeout_s=judging.timeout,
        variant_runs=judging.variant_runs,
        perturb=not judging.quick,
        fresh_values=judging.fresh_values,
        seed=seed,
        reference=judging.reference,
    )
    max_memory_bytes = None if judging.max_memory is None else judging.max_memory << 20
    return EvaluateSettings(judge, judging.workers, judging.runs, max_memory_bytes, fresh, on)


def find_subject(store_folder: Path | None, text: str, given_held_out: Sequence[str]) -> Subject:
    """Find the captures. With held-out ones, all are copied to the user's store: no project may hold them."""
    store, captures = find_captures(store_folder, text)
    project = find_project(text)
    held_out = find_held_out(store_folder, given_held_out, captures)
    if held_out:
        users = Store.open(store_folder)
        for each_store, digests in ((store, captures), *((each, (digest,)) for each, digest in held_out)):
            if not each_store.root.samefile(users.root):
                copy_closure(each_store, digests, users)
        store = users
    return Subject(
        store,
        (*captures, *(digest for _, digest in held_out)),
        None if project is None else project.folder,
        len(held_out),
    )


def _list(arguments: EvaluateArguments) -> tuple[Iterable[Candidate], int | None]:
    """List the variants; also returns how many there are, None if standard input names some."""
    try:
        flags = shlex.split(arguments.flags)
    except ValueError as error:
        raise UsageError(f"--flags {arguments.flags!r}: {error}", hint="--flags='-DTILE=32 -O2'") from error
    if arguments.variants.count(_STANDARD_INPUT) > 1:
        raise UsageError("`-` is given twice", hint="standard input can be read once")
    if _STANDARD_INPUT not in arguments.variants:
        listed = list(list_candidates(arguments.variants, flags))
        return listed, len(listed)
    place = arguments.variants.index(_STANDARD_INPUT)
    before = list(list_candidates(arguments.variants[:place], flags))
    after = list(list_candidates(arguments.variants[place + 1 :], flags))
    return _chain(before, flags, after), None


def _chain(before: list[Candidate], flags: list[str], after: list[Candidate]) -> Iterator[Candidate]:
    yield from before
    found = False
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # paths need not be UTF-8
    for line in sys.stdin or ():
        if (candidate := read_line(line, flags)) is not None:
            found = True
            yield candidate
    if not (found or before or after):
        raise ArtifactNotFound(
            "standard input is empty: it names no variant",
            hint="write one path a line, or name them as arguments",
        )
    yield from after


class Lines:
    """Writes an object for each variant to the file of --lines; nothing without one."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: FileIO | None = None
        if path is not None:
            if str(path) == "-":
                raise UsageError(
                    "--lines -: `-` is standard input for variants",
                    hint="--lines /dev/stdout writes to standard output; the digest follows as the last line",
                )
            try:
                self._file = open_output(path)
            except OSError as error:
                raise UsageError(
                    f"--lines {path}: {error.strerror}", hint="name a file that you can write"
                ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, members: dict[str, Any]) -> None:
        """Write a line. If its reader has ended, the evaluation goes on without it."""
        rest = memoryview(json.dumps(members).encode("ascii") + b"\n")
        try:
            while self._file is not None and rest:
                rest = rest[self._file.write(rest) :]
        except BrokenPipeError:
            say("note: the program that reads --lines has ended; the evaluation goes on")
            self._file = None
        except OSError as error:
            raise StoreError(
                f"--lines {self._path}: {error.strerror}",
                hint="what was judged is in the store: run it again",
            ) from error


def show_ranks(evaluation: Evaluation) -> None:
    """Show the fastest variants and the counts."""
    table = make_ranks(evaluation, _MAX_SHOWN)
    if table is not None:
        open_messages(_LOG_WIDTH).print(table)
    for line in summarise(evaluation):
        say(make_printable(line))


def _choose_exit_code(evaluation: Evaluation) -> ExitCode:
    found = {each.outcome for each in evaluation.variants}
    if Outcome.RIGHT in found:
        return ExitCode.DONE
    return ExitCode.DEVICE if Outcome.UNJUDGED in found else ExitCode.ANSWER_IS_NO
