"""Class ``Kerncap``: profile, extract, replay and validate from Python, as kerncap's users know them.

Errors are the classes of ``kerncap_stages.errors``; each has a ``hint`` that says what to do next. Whatever
the class does is also in the store: its artifacts can be listed and shown with ``kc-show``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.compat.arguments import check_language, program_words
from kerncap_stages.errors import UsageError
from kerncap_stages.machine.time_limits import check_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike

    from kerncap_stages.compat.results import ExtractResult, KernelStat, ReplayResult, ValidationResult
    from kerncap_stages.compat.steps import Step

    AnyPath = str | PathLike[str]


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
        from kerncap_stages.compat.profiling import profile_program

        check_seconds("timeout", timeout)
        return profile_program(self._store, program_words(cmd), output_path, timeout, warn)

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
        from kerncap_stages.compat.extraction import extract_kernel

        if not kernel_name.strip():
            raise UsageError("the name of a kernel is empty", hint="`kerncap profile` lists kernels")
        check_language(language, triton_backend)
        check_seconds("timeout", timeout)
        if dispatch < -1:
            raise UsageError(f"dispatch {dispatch}: they are numbered from 0; -1 is the first")
        return extract_kernel(
            self._store,
            program_words(cmd),
            kernel_name,
            max(0, dispatch),
            output=None if output is None else Path(output),
            source_dirs=() if source_dir is None else (Path(source_dir),),
            defines=tuple(defines or ()),
            language=language,
            timeout_s=timeout,
            force=force,
            on_step=on_step or (lambda _step: None),
        )

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
        from kerncap_stages.compat.replaying import replay_project

        if iterations < 1:
            raise UsageError(f"iterations {iterations}: at least 1")
        check_seconds("timeout", timeout)
        return replay_project(
            self._store,
            Path(reproducer_dir),
            hsaco,
            iterations,
            dump_output=dump_output,
            hip_launch=hip_launch,
            timeout_s=timeout,
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
        from kerncap_stages.compat.validating import settings_of, validate_project

        check_seconds("timeout", timeout)
        settings = settings_of(tolerance, rtol, dtype, timeout)
        return validate_project(self._store, Path(reproducer_dir), hsaco, settings)
