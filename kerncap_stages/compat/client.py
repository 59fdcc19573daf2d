"""Class ``Kerncap``: profile, extract, replay and validate from Python, as kerncap's users know them.

Errors are the classes of ``kerncap_stages.errors``; each has a ``hint`` that says what to do next. Whatever
the class does is also in the store: its artifacts can be listed and shown with ``kc-show``.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerncap_stages.compat.arguments import as_folder, check_language, find_variant, split_command
from kerncap_stages.compat.conversion import extract_result, validation_result
from kerncap_stages.compat.results import ReplayResult
from kerncap_stages.errors import UsageError
from kerncap_stages.machine.time_limits import check_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike

    from kerncap_stages.collect.program import ProgramSpec
    from kerncap_stages.compat.results import ExtractResult, KernelStat, ValidationResult
    from kerncap_stages.compat.steps import Step
    from kerncap_stages.store import Store

    AnyPath = str | PathLike[str]

DEFAULT_ATOL, DEFAULT_RTOL = 1e-6, 1e-5
# Repeated replays begin with one that does not count: the first run of a kernel pays for cold caches.
WARMUP_RUNS = 1


class Kerncap:
    """Take kernels out of programs and work on them alone.

    ``store``: folder of the store; else ``KERNCAP_STORE``, else a folder in the user's data folder.
    """

    def __init__(self, store: AnyPath | None = None) -> None:
        self._store = None if store is None else Path(store)

    def profile(
        self,
        cmd: Sequence[str] | str,
        output_path: AnyPath | None = None,
        *,
        timeout: float | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> list[KernelStat]:
        """Run a program and rank its kernels by total GPU time, the largest first.

        ``cmd``: the program and its arguments; no shell is involved, a string is split as a shell would.
        ``output_path``: write the result there as JSON, too. ``timeout``: end the program after so many
        seconds. ``warn`` is called with each thing that makes the ranking incomplete, as a program that
        failed; without it these are Python warnings (RuntimeWarning).
        Raises AnswerIsNo if no kernel ran, ProgramError if the program failed before one did, DeviceError if
        the file cannot be written.
        """
        from kerncap_stages.collect.profile import ProfileOptions, run_profile
        from kerncap_stages.compat.statistics import kernel_stats, profile_object
        from kerncap_stages.errors import DeviceError

        check_seconds("timeout", timeout)
        spec = _program(cmd)
        said: list[str] = []
        try:
            _, profile = run_profile(self._open(), spec, ProfileOptions(timeout, warn or said.append))
        finally:
            for text in said:
                warnings.warn(text, RuntimeWarning, stacklevel=2)
        kernels = kernel_stats(profile)
        if output_path is not None:
            try:
                Path(output_path).write_text(
                    json.dumps(profile_object(spec.command, kernels), indent=2) + "\n"
                )
            except OSError as error:
                raise DeviceError(
                    f"cannot write {output_path}: {error.strerror}", hint="give another output_path"
                ) from error
        return kernels

    def extract(
        self,
        kernel_name: str,
        cmd: Sequence[str] | str,
        source_dir: AnyPath | None = None,
        output: AnyPath | None = None,
        language: str | None = None,
        dispatch: int = -1,
        defines: Sequence[str] | None = None,
        timeout: float | None = 300.0,
        triton_backend: str = "hsa",
        *,
        force: bool = False,
        on_step: Callable[[Step], None] | None = None,
    ) -> ExtractResult:
        """Capture one dispatch of a kernel and make a project of it.

        ``kernel_name``: part of the demangled name, or the whole symbol. ``dispatch``: which of its
        dispatches, from 0; -1 is the first. ``output``: the project's folder, else
        ``./isolated/<kernel_name>``. ``language``: ``hip``, ``cuda`` or ``triton``; found out when left out.
        ``defines``: macros for the compiler, ``NAME`` or ``NAME=VALUE``. ``timeout``: end the program after
        so many seconds; it is ended anyway once the dispatch is captured. ``force``: overwrite files of the
        project that were edited. ``on_step`` is called after each step.

        A source that cannot be found is no error: ``has_source`` is false and ``notes`` say why.
        Raises UsageError before anything runs, AnswerIsNo if the kernel is never dispatched, ProgramError if
        the program fails before, Refused for memory that cannot be captured, DeviceError.
        """
        if not kernel_name.strip():
            raise UsageError("the name of a kernel is empty", hint="`kerncap profile` lists kernels")
        from kerncap_stages.compat.extraction import run_extract
        from kerncap_stages.compat.steps import ExtractRequest
        from kerncap_stages.project.default_folder import folder_name

        check_language(language, triton_backend)
        check_seconds("timeout", timeout)
        if dispatch < -1:
            raise UsageError(f"dispatch {dispatch}: they are numbered from 0; -1 is the first")
        extraction = run_extract(
            self._open(),
            ExtractRequest(
                spec=_program(cmd),
                profile_first=False,
                kernel=kernel_name,
                dispatch=max(0, dispatch),
                output=Path(output) if output is not None else Path("isolated") / folder_name(kernel_name),
                force=force,
                source_dirs=() if source_dir is None else (Path(source_dir),),
                defines=tuple(defines or ()),
                stop_after=True,
                timeout_s=timeout,
                on_step=on_step or (lambda _step: None),
            ),
        )
        return extract_result(extraction, language)

    def replay(
        self,
        reproducer_dir: AnyPath,
        hsaco: AnyPath | None = None,
        iterations: int = 1,
        dump_output: bool = False,
        hip_launch: bool = False,
        *,
        timeout: float | None = 300.0,
    ) -> ReplayResult:
        """Run the captured dispatch again, alone, at its original addresses.

        ``reproducer_dir``: the project, or the ``capture`` folder in it. ``hsaco``: this code object instead
        of the captured one; a relative path is looked for in the current folder, then in the project.
        ``iterations``: how often, each from the captured state. ``dump_output``: write every region after the
        last one to ``output/`` in the folder given. ``hip_launch``: through the HIP runtime instead of HSA.
        ``timeout``: in seconds.
        A fault, a crash or a hang of the kernel is a result with another ``returncode`` than 0.
        Raises ArtifactError for a folder that is no project, UsageError, DeviceError, and Refused for the
        wrong GPU.
        """
        from kerncap_stages.cli.artifacts import find_capture, list_for_user
        from kerncap_stages.compat.lines import exit_code, replay_json, replay_lines
        from kerncap_stages.generate.kinds import kind_of
        from kerncap_stages.manifests.capture import Capture
        from kerncap_stages.manifests.codec import load_as
        from kerncap_stages.manifests.timing import TimeSource
        from kerncap_stages.replay.engine import run_replay
        from kerncap_stages.replay.options import ReplayOptions

        if iterations < 1:
            raise UsageError(f"iterations {iterations}: at least 1")
        check_seconds("timeout", timeout)
        folder = as_folder(Path(reproducer_dir))
        store, capture = find_capture(self._store, str(folder.resolve()))
        variant = find_variant(folder, hsaco)
        options = ReplayOptions(
            variant=variant,
            iterations=iterations,
            warmup=WARMUP_RUNS if iterations > 1 else 0,
            dump_folder=Path(reproducer_dir) / "output" if dump_output else None,
            hip_launch=hip_launch,
            timeout_s=timeout,
        )
        digest, manifest, _ = run_replay(store, capture, options)
        captured = load_as(store, capture, Capture)
        said = [] if manifest.explanation is None else [manifest.explanation]
        if (note := list_for_user(store, digest, self._store)) is not None:
            said.append(note)
        if manifest.matches_golden is False:
            said.append("memory differs from what the captured dispatch left: see `kerncap validate`")
        software = manifest.timing is not None and manifest.timing.source is TimeSource.SOFTWARE_GPU
        if software:
            said.append("times are the software GPU's and say nothing about hardware")
        timing = manifest.timing
        return ReplayResult(
            returncode=exit_code(manifest),
            stdout="".join(f"{line}\n" for line in replay_lines(manifest, iterations)),
            stderr="".join(f"{line}\n" for line in said),
            timing_us=None if timing is None else timing.mean_ns / 1e3,
            min_us=None if timing is None else timing.min_ns / 1e3,
            max_us=None if timing is None else timing.max_ns / 1e3,
            median_us=None if timing is None else timing.median_ns / 1e3,
            iterations=iterations,
            matches_capture=manifest.matches_golden,
            software_gpu=software,
            instructions=None if timing is None else timing.instructions,
            outcome=manifest.outcome.value,
            explanation=manifest.explanation,
            replay=str(digest),
            report=replay_json(manifest, captured, variant or folder / kind_of(captured).code),
        )

    def validate(
        self,
        reproducer_dir: AnyPath,
        tolerance: float | None = None,
        rtol: float | None = None,
        hsaco: AnyPath | None = None,
        *,
        dtype: str | None = None,
        timeout: float = 300.0,
    ) -> ValidationResult:
        """Whether a rebuilt code object does what the captured one did in the program.

        ``hsaco``: the rebuilt one, else ``candidate.hsaco`` or ``optimized.hsaco`` in the project; without
        any the captured kernel itself is replayed and checked (mode ``smoke``). Bytes are compared unless a
        bound is given: then elements of type ``dtype`` must be within ``tolerance + rtol * |captured|``,
        where the bound that is left out is 1e-6 or 1e-5. ``timeout``: for each replay, in seconds.
        A kernel that faults or hangs is a failed verdict, not an error.
        Raises ArtifactError for a folder that is no project, UsageError, DeviceError, Refused.
        """
        from kerncap_stages.cli.artifacts import find_captures, list_for_user
        from kerncap_stages.manifests.view import read_view
        from kerncap_stages.project.built import about_variant, unbuilt_edits
        from kerncap_stages.project.variants import built_variant
        from kerncap_stages.validate.engine import run_validate

        check_seconds("timeout", timeout)
        folder = as_folder(Path(reproducer_dir))
        store, captures = find_captures(self._store, str(folder.resolve()))
        variant = find_variant(folder, hsaco) or built_variant(folder)
        settings = _settings(tolerance, rtol, dtype, timeout)
        made = [run_validate(store, capture, variant, settings) for capture in captures]
        unlisted = [list_for_user(store, digest, self._store) for digest, _ in made]
        notes = [note for note in unlisted if note is not None]
        notes += [] if variant is None else about_variant(folder, variant)
        unbuilt = [] if variant is not None else unbuilt_edits(folder)
        notes += [f"{name} was edited and not built: this is of the captured kernel" for name in unbuilt]
        names = [read_view(store, capture).kernel.demangled_name for capture in captures]
        return validation_result(
            [manifest for _, manifest in made], [digest for digest, _ in made], names, notes
        )

    def _open(self) -> Store:
        from kerncap_stages.store import Store

        return Store.open(self._store)


def _program(cmd: Sequence[str] | str) -> ProgramSpec:
    from kerncap_stages.collect.program import ProgramSpec

    words = split_command(cmd) if isinstance(cmd, str) else tuple(cmd)
    if not words:
        raise UsageError("the command is empty", hint="give the program and its arguments")
    return ProgramSpec(words)


def _settings(tolerance: float | None, rtol: float | None, dtype: str | None, timeout: float) -> Any:
    from kerncap_stages.validate.request import Settings, checked_settings

    if tolerance is None and rtol is None:
        checked_settings(None, None, None, dtype)
        return Settings(timeout_s=timeout)
    return checked_settings(
        DEFAULT_ATOL if tolerance is None else tolerance,
        DEFAULT_RTOL if rtol is None else rtol,
        None,
        dtype,
        timeout_s=timeout,
    )
