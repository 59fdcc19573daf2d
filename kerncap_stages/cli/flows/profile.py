"""What kc-profile does: run a program or read rocprofv3's tables, rank the kernels, and store the profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.cli.console import emit, open_messages, say
from kerncap_stages.collect.profile import ProfileOptions, run_profile
from kerncap_stages.collect.program import ProgramSpec
from kerncap_stages.collect.rocprofv3 import import_profile
from kerncap_stages.errors import DeviceError, ExitCode, UsageError
from kerncap_stages.manifests import dump
from kerncap_stages.pages.profile import make_kernels_section
from kerncap_stages.store import Store
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.manifests.profile import Profile


class Table:
    """Shows the ranking, and writes the profile as JSON to a file.

    If the file cannot be written, the error is raised only after the profile is in the store.
    """

    def __init__(self, top: int, output: Path | None) -> None:
        """top: how many kernels to show. Raises UsageError if ``output`` cannot be a file."""
        if output is not None and (output.is_dir() or not output.absolute().parent.is_dir()):
            why = "it is a folder" if output.is_dir() else f"there is no folder {output.absolute().parent}"
            raise UsageError(f"--output {output}: {why}", hint="give a file in a folder that exists")
        self._top, self._output = top, output
        self._error: DeviceError | None = None

    def show(self, profile: Profile) -> None:
        """Print the ranking and write the file."""
        open_messages().print(*make_kernels_section(profile, self._top))
        try:
            if self._output is not None:
                self._output.write_bytes(dump(profile))
        except OSError as error:
            self._error = DeviceError(
                f"cannot write {self._output}: {error.strerror}", hint="`kc-show --json` prints it again"
            )

    def require_written(self) -> None:
        """Raise DeviceError if the file could not be written."""
        if self._error is not None:
            raise self._error


def profile_program(
    store_folder: Path | None,
    program: tuple[str, ...],
    table: Table,
    *,
    streams: tuple[Path | None, Path | None],
    timeout_s: float | None,
    as_json: bool,
) -> ExitCode:
    """Profile a program and print the profile's digest; returns PROGRAM if a signal ended the program.

    streams: the program's standard output and input.
    """
    store = Store.open(store_folder)
    spec = ProgramSpec(program, stdout=streams[0], stdin=streams[1])
    code = ExitCode.DONE

    def fail() -> None:
        nonlocal code
        code = ExitCode.PROGRAM

    options = ProfileOptions(timeout_s, warn=_warn, on_made=table.show, on_killed=fail)
    try:
        digest, made = run_profile(store, spec, options)
    except KeyboardInterrupt:
        try:
            table.require_written()
        except DeviceError as error:
            say(f"kc-profile: error: {error}")
        raise
    table.require_written()
    emit(digest, made if as_json else None)
    return code


def profile_files(store_folder: Path | None, files: Sequence[Path], table: Table, *, as_json: bool) -> None:
    """Store rocprofv3's measurements as a profile, and print its digest."""
    digest, made = import_profile(Store.open(store_folder), files, _warn)
    table.show(made)
    table.require_written()
    emit(digest, made if as_json else None)


def _warn(text: str) -> None:
    say(f"kc-profile: warning: {make_printable(text, keep_lines=True)}")  # it may name a process or a file
