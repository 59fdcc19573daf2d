"""What kc-tune does: read the parameters, tune, show each configuration, and apply the best one if asked."""

from __future__ import annotations

import contextlib
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.cli.artifacts import list_for_user
from kerncap_stages.cli.console import emit, say
from kerncap_stages.cli.flows.evaluate import Lines, find_subject, make_evaluate_settings, show_ranks
from kerncap_stages.cli.flows.evaluate_progress import EvaluateProgress
from kerncap_stages.errors import AnswerIsNo, ExitCode, UsageError
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.manifests.evaluation import Outcome
from kerncap_stages.text.formats import count
from kerncap_stages.text.terminal import make_printable
from kerncap_stages.tune.applying import apply_winner
from kerncap_stages.tune.engine import TuneSettings, TuningInterrupted, run_tune
from kerncap_stages.tune.first_file import write_first_file
from kerncap_stages.tune.search import Sampler
from kerncap_stages.tune.space import DEFINE, FLAGS, NAME, read_space

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.cli.evaluate_options import JudgingOptions
    from kerncap_stages.evaluate.subject import Subject
    from kerncap_stages.manifests.evaluation import EvaluatedVariant
    from kerncap_stages.tune.engine import Tuned
    from kerncap_stages.tune.search import Found
    from kerncap_stages.tune.space import Space


@dataclass(frozen=True)
class TuneArguments:
    """What to tune and what to show. ``parameters``: None: the project's ``tune.toml``."""

    project: str
    parameters: Path | None
    trials: int
    max_time_s: float | None
    sampler: str
    seed: int | None
    jobs: int | None
    held_out: tuple[str, ...]
    judging: JudgingOptions
    on: str | None
    apply: bool
    lines: Path | None
    verbose: bool
    as_json: bool


def begin(store_folder: Path | None, project: str) -> ExitCode:
    """Write the ``tune.toml`` to begin with."""
    subject, folder = _open_project(store_folder, project, ())
    path = write_first_file(folder, load_as(subject.store, subject.captures[0], Capture))
    say(make_printable(f"{path} was written: edit it, then `kc-tune {shlex.quote(project)}`"))
    return ExitCode.DONE


def tune_project(store_folder: Path | None, arguments: TuneArguments) -> ExitCode:
    """Tune; returns DONE if a configuration is right.

    After Ctrl-C, shows and publishes what was judged, and raises KeyboardInterrupt.
    """
    subject, folder = _open_project(store_folder, arguments.project, arguments.held_out)
    space = read_space(folder / NAME if arguments.parameters is None else arguments.parameters)
    settings = TuneSettings(
        evaluate=make_evaluate_settings(arguments.judging, on=arguments.on),
        trials=arguments.trials,
        jobs=arguments.jobs,
        max_time_s=arguments.max_time_s,
        sampler=Sampler(arguments.sampler),
        seed=arguments.seed,
    )
    interrupted = False
    total = min(arguments.trials, space.size)
    with Lines(arguments.lines) as lines, EvaluateProgress(total, verbose=arguments.verbose) as shown:

        def report(number: int, configuration: dict[str, object], variant: EvaluatedVariant) -> None:
            shown.add(variant)
            members = variant.model_dump(mode="json")
            lines.write({"number": number, "parameters": configuration, **members})

        try:
            # Ray prints what it has to say, and standard output is for the digest.
            with contextlib.redirect_stdout(sys.stderr):
                tuned = run_tune(subject, space, settings, report)
        except TuningInterrupted as error:
            interrupted, tuned = True, error.tuned
    _show(tuned, arguments)
    if tuned.latest is not None and subject.store.has(tuned.latest):
        if tuned.digest is not None:
            unlisted = list_for_user(subject.store, tuned.latest, store_folder)
            if unlisted is not None:
                say(f"note: {make_printable(unlisted)}")
        emit(tuned.latest, subject.store.get(tuned.latest) if arguments.as_json else None)
    if interrupted:
        judged = count(len(tuned.found), "configuration")
        say(f"interrupted: {judged} were judged by now; the same command goes on with the others")
        raise KeyboardInterrupt
    return _finish(subject, folder, space, tuned, arguments)


def _open_project(store_folder: Path | None, project: str, held_out: tuple[str, ...]) -> tuple[Subject, Path]:
    subject = find_subject(store_folder, project, held_out)
    if subject.project is None:
        raise UsageError(
            f"{project} is not a project: variants are built in one",
            hint="give the folder that kc-generate made",
        )
    return subject, subject.project


def _show(tuned: Tuned, arguments: TuneArguments) -> None:
    if tuned.evaluation is not None:
        show_ranks(tuned.evaluation)
    tried = count(len(tuned.found), "configuration")
    if tuned.best is None:
        say(f"{tried} judged in all runs; none is right")
    else:
        best = make_printable(tuned.best.configuration.name)
        say(f"Best of {tried} in all runs: {tuned.best.ratio:.3f}  {best}")
    if tuned.is_exhausted:
        is_all = len(tuned.found) == tuned.space.size
        say(
            f"all {tried} were tried"
            if is_all
            else "no other configuration was found that the constraints allow"
        )
    elif len(tuned.found) >= arguments.trials > 0:
        say(f"{arguments.trials:,} were asked for: a larger --trials goes on")
    if _are_all_alike(tuned):
        say(
            "note: all configurations are the same. A value from the command line has no effect if the "
            "source defines the same name: put its #define between #ifndef and #endif"
        )


def _are_all_alike(tuned: Tuned) -> bool:
    """Whether values from the command line had no effect. Code may differ in hashes of the command line."""
    compiled = [*tuned.space.find(DEFINE), *tuned.space.find(FLAGS)]
    built = [each for each in tuned.found if each.code_digest is not None]
    values = {tuple(each.configuration.as_dict()[name.name] for name in compiled) for each in built}
    is_same_code = len({each.code_digest for each in built}) == 1
    ratios = {each.ratio for each in built}
    return len(values) > 1 and (is_same_code or (len(ratios) == 1 and None not in ratios))


def _finish(subject: Subject, folder: Path, space: Space, tuned: Tuned, arguments: TuneArguments) -> ExitCode:
    if tuned.best is not None:
        if arguments.apply:
            _apply(subject, folder, space, tuned.best)
        else:
            project = shlex.quote(arguments.project)
            say(
                make_printable(f"next: `kc-tune {project} --trials 0 --apply` makes it the project's variant")
            )
        return ExitCode.DONE
    if not tuned.found and arguments.trials == 0:
        raise AnswerIsNo("nothing was judged yet", hint="leave out --trials 0")
    found = {each.outcome for each in (tuned.evaluation.variants if tuned.evaluation is not None else ())}
    return ExitCode.DEVICE if Outcome.UNJUDGED in found else ExitCode.ANSWER_IS_NO


def _apply(subject: Subject, folder: Path, space: Space, best: Found) -> None:
    captures = tuple(load_as(subject.store, each, Capture) for each in subject.captures)
    winner = apply_winner(folder, space, captures, best)
    said = [f"{folder / winner.built} is now {best.configuration.name}"]
    if winner.changed:
        said.append("changed: " + ", ".join(winner.changed))
    if winner.kept is not None:
        said.append(f"as they were before: {winner.kept}")
    if not winner.is_judged:
        said.append("note: it is not the code object that was judged; `make validate-variant` judges it")
    if winner.shadowed_by is not None:
        said.append(f"note: kc-validate takes {winner.shadowed_by} of the project first; move it away")
    for line in said:
        say(make_printable(line))
