"""What kc-run does: choose the variants, run the program with them, and say what became of them."""

from __future__ import annotations

import shlex
import signal
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kerncap_stages.cli.console import say
from kerncap_stages.cli.flows.run_check import CheckRequest, check_dispatches, explain_failed_check
from kerncap_stages.cli.flows.run_compare import Comparison, describe_times
from kerncap_stages.cli.flows.run_json import write_json
from kerncap_stages.cli.flows.run_result import describe_run
from kerncap_stages.cli.flows.run_variants import choose_variants, write_files
from kerncap_stages.cli.named_output import begin_output
from kerncap_stages.cli.store_option import add_store_option
from kerncap_stages.collect.program import ProgramSpec
from kerncap_stages.collect.replacing import ReplacedRun, run_with_variants
from kerncap_stages.errors import ExitCode, KerncapError, UsageError
from kerncap_stages.machine.temporary import TemporaryFolder
from kerncap_stages.manifests.environment import Backend
from kerncap_stages.store import Store
from kerncap_stages.text.formats import count
from kerncap_stages.text.terminal import make_printable
from kerncap_stages.validate.request import JudgeSettings, make_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kerncap_stages.collect.program import RunningProgram
    from kerncap_stages.store.remembered import Remembered


@dataclass(frozen=True)
class RunArguments:
    """What runs in a kernel's place. ``variant``: a project's folder, or a code object."""

    variant: Path
    kernel: str | None = None
    capture: str | None = None
    any_code: bool = False
    checked: int | None = None  # how many dispatches are compared first
    bounds: tuple[float | None, float | None, int | None] = (None, None, None)  # absolute, relative, ULP
    timeout_s: float | None = None  # of a replay for a comparison; None: the judge's own
    pairs: int | None = None  # of timed runs
    json: Path | None = None


def run_in_program(
    store_folder: Path | None, command: tuple[str, ...] | None, arguments: RunArguments
) -> int:
    """Run the program with the variants; returns its exit code, or 128 + N if signal N ended it.

    Returns ANSWER_IS_NO if the program's exit code is 0 and no variant ran in a dispatch; and without running
    it if a variant was wrong in a dispatch that was checked.
    """
    if not command:
        raise UsageError("no program given", hint="kc-run --variant PROJECT -- ./app")
    variants = choose_variants(
        store_folder, arguments.variant, kernel=arguments.kernel, capture=arguments.capture
    )
    spec = ProgramSpec(command, in_foreground=True)
    if arguments.json is not None:
        _prepare_json(arguments.json)
    checked = None
    if arguments.checked is not None:
        timeout_s = arguments.timeout_s or JudgeSettings.timeout_s
        settings = make_settings(*arguments.bounds, None, timeout_s=timeout_s)
        wanted = CheckRequest(arguments.checked, settings, any_code=arguments.any_code)
        checked = check_dispatches(Store.open(store_folder), spec, variants, wanted, _tell)
        if (why := explain_failed_check(checked)) is not None:
            _tell(f"the program was not run: {why}")
            if arguments.json is not None:
                write_json(arguments.json, spec, variants, checked=checked)
            return ExitCode.ANSWER_IS_NO
    comparison = stopped = None
    with_cuda = any(each.capture.environment.backend is Backend.CUDA for each in variants)
    with TemporaryFolder("run") as folder:
        replacements = [
            write_files(each, folder / str(number), any_code=arguments.any_code)
            for number, each in enumerate(variants)
        ]
        with _leave_signals_to_the_program() as running:
            run = run_with_variants(spec, replacements, _tell, running.start, with_cuda=with_cuda)
        for text, next_step in describe_run(variants, run, any_code=arguments.any_code):
            _tell(text, next_step)
        has_times = arguments.pairs is not None and checked is None
        for each in variants:
            known = each.verdicts
            for text in known.explain(has_times=has_times):
                _tell(f"note: {each.title}: {_name_store(text, each.store, known.failed, store_folder)}")
        if arguments.pairs is not None and (why := _explain_untimed(run, was_told=running.was_told)):
            _tell(f"not timed: {why}")
        elif arguments.pairs is not None:
            comparison = Comparison(arguments.pairs, any(process.is_software for process in run.processes))
            stopped = _compare(
                comparison,
                spec,
                lambda each, with_variant: run_with_variants(
                    each, replacements if with_variant else [], _tell, with_cuda=with_cuda
                ),
                run,
            )
    if arguments.json is not None:
        write_json(arguments.json, spec, variants, checked=checked, run=run, comparison=comparison)
    if stopped is not None:
        raise stopped
    return _choose_exit_code(run)


def _prepare_json(path: Path) -> None:
    """Remove an earlier run's file, which no script may read. Raises UsageError where none can be written."""
    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise UsageError(f"--json {path}: {what}", hint="name a file in a folder that exists")
    try:
        begin_output(path)
    except OSError as error:
        raise UsageError(f"--json {path}: {error.strerror}", hint="name a file that you can write") from error


def _name_store(text: str, store: Store, known: Remembered | None, store_folder: Path | None) -> str:
    """Add the store to the commands of a text: the project's if the user's lacks the verdict."""
    if known is not None and known.digest not in _list_listed(store_folder):
        return text.replace("`kc-show ", f"`kc-show --store {shlex.quote(str(store.root))} ")
    return add_store_option(text)


def _list_listed(store_folder: Path | None) -> set[str]:
    with suppress(KerncapError):
        return {str(entry.digest) for entry in Store.open(store_folder, create=False).list_artifacts()}
    return set()


def _compare(
    comparison: Comparison,
    spec: ProgramSpec,
    run: Callable[[ProgramSpec, bool], ReplacedRun],
    first: ReplacedRun,
) -> KeyboardInterrupt | KerncapError | None:
    """Time runs by turns, and say what was found; returns what ended it before all of them were made."""
    wanted = count(comparison.wanted, "pair")
    _tell(f"timing {wanted} of runs; Ctrl-C ends this, and the pairs until then count")
    stopped: KeyboardInterrupt | KerncapError | None = None
    try:
        comparison.run(spec, run, first)
    except KeyboardInterrupt as interrupt:
        stopped = interrupt
        _tell(f"interrupted after {len(comparison.captured_ns)} of {wanted} of runs")
    except KerncapError as error:
        stopped = error
        _tell(f"timing ended after {len(comparison.captured_ns)} of {wanted} of runs, by the error below")
    for line in describe_times(comparison):
        _tell(line)
    return stopped


def _choose_exit_code(run: ReplacedRun) -> int:
    """Choose the program's exit code; ANSWER_IS_NO if that is 0 and the variant ran in no dispatch."""
    if run.program.exit_signal is not None:
        return 128 + run.program.exit_signal
    if run.program.exit_code == 0 and not run.dispatches:
        _tell("the variant ran in no dispatch, so the exit code is 1; the program's own is 0")
        return ExitCode.ANSWER_IS_NO
    return run.program.exit_code or 0


def _explain_untimed(run: ReplacedRun, *, was_told: bool) -> str | None:
    """Explain why no further runs are timed; None if they are. was_told: a signal came for the program."""
    if was_told or run.program.exit_signal is not None:
        return "a signal ended the first run"
    return None if run.dispatches else "nothing was replaced"


def _tell(text: str, next_step: str | None = None) -> None:
    say(f"kc-run: {make_printable(text)}")
    if next_step is not None:
        say(f"  next: {make_printable(add_store_option(next_step))}")


@dataclass
class _Running:
    """The program that runs, once it is known; and whether a signal came for it."""

    program: RunningProgram | None = None
    was_told: bool = False
    early: list[signal.Signals] = field(default_factory=list)  # came before it was known

    def start(self, program: RunningProgram) -> None:
        """Take the program, which has just started, and pass on what came for it."""
        self.program = program
        while self.early:
            program.send_signal(self.early.pop(0))

    def pass_on(self, number: signal.Signals) -> None:
        """Pass a signal on to the program."""
        self.was_told = True
        if self.program is None:
            self.early.append(number)
        else:
            self.program.send_signal(number)


@contextmanager
def _leave_signals_to_the_program() -> Iterator[_Running]:
    """Let the program decide what Ctrl-C means: a terminal sends it to both. Others are passed on to it."""
    running = _Running()

    def pass_on(number: int, _frame: object) -> None:
        running.pass_on(signal.Signals(number))

    def leave(_number: int, _frame: object) -> None:
        running.was_told = True

    before = {}
    for number, action in ((signal.SIGINT, leave), (signal.SIGTERM, pass_on), (signal.SIGHUP, pass_on)):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, action)
    try:
        yield running
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
