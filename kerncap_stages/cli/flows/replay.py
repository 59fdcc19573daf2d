"""What kc-replay does: replay each capture, and print how its results compare."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerncap_stages.cli.artifacts import find_captures, find_held_out, list_for_user, require_kernels_of
from kerncap_stages.cli.console import emit, say
from kerncap_stages.cli.flows.known_verdicts import KnownVerdicts, find_known_verdicts
from kerncap_stages.cli.inputs import read_artifact_texts
from kerncap_stages.cli.progress import show_phases
from kerncap_stages.cli.shapes import read_block, read_shape
from kerncap_stages.cli.store_option import add_store_option
from kerncap_stages.errors import ExitCode
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.project.built import explain_timed, warn_of_stale_variant
from kerncap_stages.project.cases import average_ratios, compare_counts, read_cases
from kerncap_stages.project.folder import find_project_folder
from kerncap_stages.replay.engine import run_replay
from kerncap_stages.replay.result_lines import write_result_lines
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.replay import Replay
    from kerncap_stages.project.cases import Case
    from kerncap_stages.replay.options import ReplayOptions
    from kerncap_stages.replay.report import ReplayResult, WrongRuns
    from kerncap_stages.store import Store
    from kerncap_stages.store.remembered import Remembered

# Also what the command makes of its options, so that it imports this module alone.
__all__ = ["choose_runs", "read_block", "read_shape", "replay_captures"]

# Of --compare. One pair of runs would not show how much times vary.
_RUNS, _WARMUP = 10, 1


def choose_runs(iterations: int | None, warmup: int | None, *, compares: bool) -> tuple[int, int]:
    """Choose the iterations and the warm-up runs that the user did not give."""
    is_chosen = compares and iterations is None
    return (
        iterations or (_RUNS if compares else 1),
        (_WARMUP if is_chosen else 0) if warmup is None else warmup,
    )


def replay_captures(
    store_folder: Path | None,
    artifacts: Sequence[str] | None,
    options: ReplayOptions,
    *,
    as_json: bool,
    held_out: Sequence[str] = (),
) -> ExitCode:
    """Replay each capture and print the digests of the replays.

    held_out: further captures of the kernel, which the project does not hold.

    Returns the exit code of the worst replay: DEVICE if a kernel did not complete, ANSWER_IS_NO if the
    captured kernel's results differ or a timed run of a variant was wrong or its time impossible.
    """
    if options.variant is not None and options.variant.is_file():
        for note in warn_of_stale_variant(options.variant.parent, options.variant):
            say(f"note: {make_printable(note)}")
    worst, timed = ExitCode.DONE, _TimedRuns()
    compared: list[Replay] = []
    found = _find_captures(store_folder, artifacts, options, held_out)
    for number, (store, capture, case, cases) in enumerate(found):
        each = options
        if options.dump_folder is not None and number > 0:
            each = replace(options, dump_folder=options.dump_folder / str(number))
        if case is not None:
            say(f"{make_printable(case.title)}:")
            compared = [] if case is cases[0] else compared
        with show_phases(counting_bytes="restore") as report:
            digest, made, result = run_replay(
                store, capture, replace(each, progress=report), timed.judge, timed.count_changed
            )
        known = _find_verdicts(store, made)
        for line in write_result_lines(made, result, _explain_right(made, result, known.newest)):
            say(add_store_option(line) if "next: " in line else line)
        if options.variant is not None and not options.has_shape:
            for line in known.explain(has_times=made.comparison is not None):
                say(add_store_option(f"note: {line}"))
        if (unlisted := list_for_user(store, digest, store_folder)) is not None:
            say(f"note: {make_printable(unlisted)}")
        emit(digest, made if as_json else None)
        if made.comparison is not None:
            compared.append(made)
        if case is not None and case is cases[-1] and (text := average_cases(cases, compared)) is not None:
            say(text)
        if made.outcome is ReplayOutcome.TIMED_OUT and options.interleave:
            say("  next: fewer runs (`--iterations 1 --warmup 0`), or a longer --timeout")
        if made.outcome is not ReplayOutcome.COMPLETED:
            worst = max(worst, ExitCode.DEVICE)
        elif (result.wrong_runs or result.impossible) is not None or (
            made.matches_golden is False and options.variant is None
        ):
            worst = max(worst, ExitCode.ANSWER_IS_NO)
    return worst


def average_cases(cases: Sequence[Case], compared: Sequence[Replay]) -> str | None:
    """Say how a variant compares over all cases of one kernel; None if one of them has no times.

    On the software GPU instructions are compared, because times there say nothing.
    """
    found = [made.comparison for made in compared if made.comparison is not None]
    if len(found) < len(cases) or len({case.kernel for case in cases}) > 1:
        return None
    counts = [
        (made.timing.instructions, each.baseline.instructions)
        for made, each in zip(compared, found, strict=True)
        if made.timing is not None
    ]
    known = [(after, before) for after, before in counts if after is not None and before is not None]
    if len(known) == len(cases):
        calls = [case.calls for case in cases]
        ratio = compare_counts(calls, known)
        how = "weighted by their calls in the profile" if None not in calls else "each counted once"
        what = f"wave instructions, variant / baseline over all cases, {how}"
        return None if ratio is None else f"{what}: {ratio:.3f} (not a ratio of times)"
    ratio = average_ratios(cases, [each.ratio for each in found])
    if ratio is None:
        return None
    return f"times, variant / baseline over all cases, weighted by their time in the profile: {ratio:.3f}"


def _find_verdicts(store: Store, made: Replay) -> KnownVerdicts:
    """Find the verdicts on the variant of a replay; without a variant there are none."""
    if made.variant is None:
        return KnownVerdicts()
    return find_known_verdicts(
        store, made.capture.digest, made.variant.payload.digest, made.plan.variant_shape
    )


def _explain_right(made: Replay, result: ReplayResult, known: Remembered | None) -> str | None:
    """Say how other results of a variant are known to be right; None if they were not judged, or are not."""
    if made.variant is None or not any(result.variant_states) or result.wrong_runs is not None:
        return None
    if known is not None and known.made.tolerance is not None:
        failed = "" if known.made.passed else ", which is FAIL"
        return f"within the bounds of verdict {known.digest.short}{failed}"
    return "right as kc-validate compares"


class _TimedRuns:
    """Judges timed runs; what it imports takes long, and mostly all runs are right."""

    def judge(self, *what: Any) -> WrongRuns | None:
        wrong: WrongRuns | None = self._module.judge_timed_runs(*what)
        return wrong

    def count_changed(self, *what: Any) -> int:
        changed: int = self._module.count_changed_bytes(*what)
        return changed

    @cached_property
    def _module(self) -> Any:
        from kerncap_stages.validate.timed import runs

        return runs


def _find_captures(
    store_folder: Path | None,
    artifacts: Sequence[str] | None,
    options: ReplayOptions,
    held_out: Sequence[str],
) -> Iterator[tuple[Store, Digest, Case | None, list[Case]]]:
    """Yield each capture with its store; where its project has several, also with its case and all cases."""
    for text in read_artifact_texts(artifacts, otherwise="@capture"):
        folder = find_project_folder(Path(text))
        if folder != Path(text) and options.interleave and options.variant is not None:
            # As `make bench` does, which chose the code object.
            say(f"note: {make_printable(explain_timed(folder, options.variant))}")
        store, captures = find_captures(store_folder, text)
        replayed = [(store, each) for each in captures]
        replayed += find_held_out(store_folder, held_out, captures)
        cases = read_cases(replayed, len(captures)) if len(replayed) > 1 else []
        require_kernels_of(cases)
        for number, (its_store, capture) in enumerate(replayed):
            yield its_store, capture, cases[number] if cases else None, cases
