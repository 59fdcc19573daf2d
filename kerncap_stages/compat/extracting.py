"""What kc-extract does: run every step for each program, and print the result of each step."""

from __future__ import annotations

import json
import shlex
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kerncap_stages.cli.command_line import resolve_artifact
from kerncap_stages.cli.console import say
from kerncap_stages.cli.inputs import has_piped_input, read_artifact_texts
from kerncap_stages.cli.progress import show_lines
from kerncap_stages.collect.program import ProgramSpec
from kerncap_stages.collect.selection import choose_name_match, parse_shape
from kerncap_stages.compat.extraction import run_extract
from kerncap_stages.compat.lines import name_edited_and_built
from kerncap_stages.compat.steps import CAPTURE, ExtractRequest
from kerncap_stages.errors import ExitCode, UsageError
from kerncap_stages.project.variants import find_edited_instructions
from kerncap_stages.store import Store
from kerncap_stages.text import formats
from kerncap_stages.text.configurations import parse_configuration
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kerncap_stages.compat.steps import Extraction, Step
    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.base import Dim3


@dataclass(frozen=True)
class ExtractArguments:
    """The options that say what to extract, and how."""

    kernel: str | None
    exact: bool
    regex: bool
    mangled: bool
    rank: int | None
    dispatch: int | None
    grid_blocks: str | None
    block_work_items: str | None
    configuration: str | None
    with_post: bool
    with_trials: bool
    reachable_only: bool
    hold: bool
    wait_s: float
    memory_bytes: int
    no_profile: bool
    output: Path | None
    force: bool
    fresh: bool
    source_dirs: tuple[Path, ...]
    compile_commands: Path | None
    defines: tuple[str, ...]
    compiler: str | None
    stop_after: bool
    timeout_s: float | None
    validate: bool
    program_stdout: Path | None
    program_stdin: Path | None
    as_json: bool

    def read_shapes(self) -> tuple[Dim3 | None, Dim3 | None]:
        """Read the grid and the block that a launch must have. Raises UsageError for anything else."""
        grid, block = self.grid_blocks, self.block_work_items
        return (
            None if grid is None else parse_shape("--grid-blocks", "work-groups", grid),
            None if block is None else parse_shape("--block", "work-items", block),
        )

    def read_configuration(self) -> dict[str, str]:
        """Read what a Triton kernel must have been compiled with. Raises UsageError for anything else."""
        return {} if self.configuration is None else parse_configuration(self.configuration)

    def make_request(
        self, spec: ProgramSpec | None, profile: Digest | None, messages: _Messages
    ) -> ExtractRequest:
        """Make the request for a program, or for the program of a profile."""
        grid_blocks, block_work_items = self.read_shapes()
        return ExtractRequest(
            spec=spec,
            profile=profile,
            profile_first=not self.no_profile,
            kernel=self.kernel,
            match=choose_name_match(exact=self.exact, regex=self.regex, mangled=self.mangled),
            rank=self.rank,
            dispatch=self.dispatch,
            grid_blocks=grid_blocks,
            block_work_items=block_work_items,
            configuration=self.read_configuration(),
            with_post=self.with_post,
            with_trials=self.with_trials,
            reachable_only=self.reachable_only,
            hold=self.hold,
            wait_s=self.wait_s,
            memory_bytes=self.memory_bytes,
            output=self.output,
            force=self.force,
            fresh=self.fresh,
            source_dirs=self.source_dirs,
            compile_commands=self.compile_commands,
            defines=self.defines,
            compiler=self.compiler,
            stop_after=self.stop_after,
            timeout_s=self.timeout_s,
            validate=self.validate,
            on_start=messages.start,
            on_step=messages.end,
            on_copied=messages.show_copied,
        )


def extract_kernels(
    store_folder: Path | None,
    program: tuple[str, ...] | None,
    profiles: Sequence[str] | None,
    arguments: ExtractArguments,
) -> ExitCode:
    """Extract a kernel of a program, or of each profile's program; print the digests of the reproducers.

    Returns ANSWER_IS_NO if a captured kernel does not replay to the same results.
    """
    spec, artifacts, store = _read_sources(store_folder, program, profiles, arguments)
    worst = ExitCode.DONE
    with ExitStack() as stack:
        messages = _Messages(stack)
        for artifact in artifacts:
            extraction = run_extract(store, arguments.make_request(spec, artifact, messages))
            _report(extraction, as_json=arguments.as_json)
            if extraction.failure is not None:
                raise extraction.failure
            if extraction.validation is not None and not extraction.validation.passed:
                worst = ExitCode.ANSWER_IS_NO
    return worst


def _read_sources(
    store_folder: Path | None,
    program: tuple[str, ...] | None,
    profiles: Sequence[str] | None,
    arguments: ExtractArguments,
) -> tuple[ProgramSpec | None, list[Digest | None], Store]:
    """Return the program, or the profiles. Checks everything before a program runs."""
    if arguments.no_profile and arguments.kernel is None:
        raise UsageError("--no-profile needs a kernel", hint="kc-extract --no-profile --kernel NAME -- ./app")
    if arguments.rank is not None and arguments.kernel is not None:
        raise UsageError("--rank and --kernel exclude each other", hint="give one of them")
    spec = None
    texts: list[str] = []
    if program is not None:
        if profiles:
            raise UsageError("give a profile or a command after `--`, not both", hint="leave one of them out")
        if not program:
            raise UsageError("no program given after `--`", hint="kc-extract -- ./app")
        spec = ProgramSpec(program, stdout=arguments.program_stdout, stdin=arguments.program_stdin)
    elif profiles or has_piped_input():
        texts = list(read_artifact_texts(profiles))
    else:
        raise UsageError("no program given", hint="put its command after `--`: kc-extract -- ./app")
    arguments.read_shapes()
    arguments.read_configuration()
    store = Store.open(store_folder)
    artifacts: list[Digest | None] = [None]
    if spec is None:
        artifacts = [resolve_artifact(store, text) for text in texts]
    if arguments.output is not None and len(artifacts) > 1:
        raise UsageError("--output names one folder, but there are several profiles", hint="leave it out")
    return spec, artifacts, store


class _Messages:
    """The messages while the steps run: each step, and how much memory is copied."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._report: Callable[[int, int], None] | None = None

    def start(self, step: str) -> None:
        """Say that a step begins."""
        say(f"{step} ...")
        if step == CAPTURE:
            self._report = self._stack.enter_context(show_lines("capture"))

    def show_copied(self, done_bytes: int, total_bytes: int) -> None:
        """Show how many bytes of a capture are copied."""
        if self._report is not None:
            self._report(done_bytes, total_bytes)

    def end(self, step: Step) -> None:
        """Print the result of a step, and its notes."""
        self._stack.close()
        self._report = None
        digest = step.digest.short if step.digest is not None else "-"
        say(f"  {digest:12}  {make_printable(step.summary)}  ({formats.format_duration(step.duration_ns)})")
        for note in step.notes:
            say("  note: " + make_printable(note, keep_lines=True).replace("\n", "\n    "))


def _report(extraction: Extraction, *, as_json: bool) -> None:
    folder = make_printable(shlex.quote(str(extraction.folder)))
    say(f"project: {folder}")
    if extraction.reproducer.can_recompile:
        editable, _ = name_edited_and_built([file.path for file in extraction.reproducer.files])
        say(f"next: edit {folder}/{editable}, then make -C {folder} validate-variant bench")
    elif edited := find_edited_instructions([file.path for file in extraction.reproducer.files]):
        say(
            f"next: edit {folder}/{edited}, the kernel's instructions (the notes say why not its source), "
            f"then make -C {folder} assemble validate-variant bench"
        )
    else:
        say(f"next: make -C {folder} run; it cannot be rebuilt, as the notes above say")
    if as_json:
        print(json.dumps(make_json_object(extraction)), flush=True)
    else:
        print(extraction.digests["generate"], flush=True)


def make_json_object(extraction: Extraction) -> dict[str, Any]:
    """Make the object that ``--json`` prints on one line. Durations are in nanoseconds."""
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
