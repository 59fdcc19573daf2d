"""Class ``Kerncap``: profile, extract, replay and validate from Python, with kerncap's documented interface.

Errors are the classes of ``kerncap_stages.errors``; each has a ``hint`` that says what to do next. The class
stores the artifacts that it makes: ``kc-store ls`` lists them, and ``kc-show`` shows them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.compat.arguments import check_language, read_command, read_macros
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

    ``store``: folder of the store. Default: ``KERNCAP_STORE``, else a folder in the user's data folder.
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

        ``cmd``: the program and its arguments. A string is split as a shell would, but no shell runs it.
        ``output_path``: also write the result to this file, as JSON. ``timeout``: end the program after this
        many seconds. ``warn``: called with the reason if the ranking is incomplete, for example because the
        program failed; without it the reason is a Python warning (RuntimeWarning).
        Raises AnswerIsNo if no kernel ran, ProgramError if the program failed before a kernel ran,
        DeviceError if the file cannot be written.
        """
        from kerncap_stages.compat.profiling import profile_program

        check_seconds("timeout", timeout)
        return profile_program(self._store, read_command(cmd), output_path, timeout, warn)

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

        ``kernel_name``: part of the demangled name, or the whole symbol. ``dispatch``: which dispatch of the
        kernel, counted from 0; -1 is the first. ``output``: the project's folder; the default is
        ``./isolated/<kernel_name>``. ``language``: ``hip``, ``cuda`` or ``triton``; by default it is
        detected. ``defines``: macros for the compiler, ``NAME`` or ``NAME=VALUE``, also with ``-D``.
        ``triton_backend``: ``hsa`` or ``python``, which do the same.
        ``timeout``: end the program after this many seconds; it always ends once the dispatch is captured.
        ``force``: overwrite edited files of the project. ``on_step``: called after each step.

        If the source is not found, that is not an error: ``has_source`` is false, and ``notes`` say why.
        Raises UsageError before anything runs, AnswerIsNo if the kernel is never dispatched, ProgramError if
        the program fails before the dispatch, Refused for memory that cannot be captured, DeviceError.
        """
        from kerncap_stages.compat.extraction import extract_kernel

        if not kernel_name.strip():
            raise UsageError(
                "the name of a kernel is needed, not an empty text", hint="`kerncap profile` lists kernels"
            )
        notes = check_language(language, triton_backend)
        check_seconds("timeout", timeout)
        if dispatch < -1:
            raise UsageError(f"dispatch {dispatch}: they are numbered from 0; -1 is the first")
        result = extract_kernel(
            self._store,
            read_command(cmd),
            kernel_name,
            max(0, dispatch),
            output=None if output is None else Path(output),
            source_dirs=() if source_dir is None else (Path(source_dir),),
            defines=read_macros(defines or ()),
            language=language,
            timeout_s=timeout,
            force=force,
            on_step=on_step or (lambda _step: None),
        )
        result.notes.extend(notes)
        return result

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

        ``reproducer_dir``: the project, or the ``capture`` folder in it. ``hsaco``: run this code object
        instead of the captured one; a relative path is searched in the current folder, then in the project.
        ``iterations``: how many runs, each from the captured state. ``dump_output``: after the last run,
        write every region to ``output/`` in ``reproducer_dir``. ``hip_launch``: launch through the HIP
        runtime instead of HSA. ``timeout``: in seconds.
        If the kernel faults, crashes or hangs, that is a result: its ``returncode`` is not 0.
        Raises ArtifactError for a folder that is not a project, UsageError, DeviceError, and Refused for the
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
        reference: AnyPath | None = None,
        timeout: float = 300.0,
    ) -> ValidationResult:
        """Judge whether a rebuilt code object gives the results that the captured one gave in the program.

        ``hsaco``: the rebuilt code object; the default is ``candidate.hsaco``, else ``optimized.hsaco`` in
        the project. Without any, the captured kernel itself is replayed and checked (mode ``smoke``). Bytes
        are compared unless a bound is given. Then elements of type ``dtype`` must be within
        ``tolerance + rtol * |captured|``. If only one bound is given, ``tolerance`` defaults to 1e-6 and
        ``rtol`` to 1e-5. ``reference``: a Python file that computes the true outputs; a variant that is less
        exact than the captured kernel then fails. ``timeout``: for each replay, in seconds.
        If a kernel faults or hangs, the verdict is FAIL; that is not an error.
        Raises ArtifactError for a folder that is not a project, UsageError, DeviceError, Refused.
        """
        from kerncap_stages.compat.validating import read_settings, validate_project

        check_seconds("timeout", timeout)
        settings = read_settings(tolerance, rtol, dtype, timeout, reference)
        return validate_project(self._store, Path(reproducer_dir), hsaco, settings)
