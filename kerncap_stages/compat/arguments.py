"""What the documented arguments mean, and which are refused."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.errors import Refused, UsageError

if TYPE_CHECKING:
    from os import PathLike

LANGUAGES = ("hip", "cuda", "triton")
_SHELL_WORDS = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>&1"})


def split_command(text: str) -> tuple[str, ...]:
    """Split a command as a shell would, without one.

    Raises UsageError for what only a shell could run.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"the command cannot be split: {error}", hint="check its quotes") from error
    if not words:
        raise UsageError("the command is empty", hint="give the program and its arguments")
    name, equals, _ = words[0].partition("=")
    if equals and name.isidentifier():
        raise UsageError(
            f"{words[0]!r} sets a variable, and no shell runs the command", hint=f"env {words[0]} ..."
        )
    wild = [word for word in words if word in _SHELL_WORDS]
    if wild:
        raise UsageError(
            f"{wild[0]!r} means something to a shell, and no shell runs the command",
            hint="put it into one yourself: bash -c '...'",
        )
    return tuple(words)


def check_language(language: str | None, triton_backend: str) -> None:
    """Raise UsageError for an unknown word, Refused for what is not offered."""
    if language is not None and language not in LANGUAGES:
        raise UsageError(f"unknown language {language!r}", hint="hip, cuda or triton; or leave it out")
    if triton_backend == "python":
        raise Refused(
            "the Python capture backend is not offered: every kernel is captured at the HSA level",
            hint="leave --triton-backend out, or pass hsa",
        )
    if triton_backend != "hsa":
        raise UsageError(f"unknown Triton backend {triton_backend!r}", hint="hsa is the only one")


def as_folder(given: Path) -> Path:
    """A project's folder, of it or of the ``capture`` in it.

    Raises ArtifactError if it is neither.
    """
    from kerncap_stages.errors import ArtifactError
    from kerncap_stages.project.checkout import is_project, project_folder

    folder = project_folder(given)
    if not is_project(folder):
        what = "is not a generated project" if folder.exists() else "does not exist"
        raise ArtifactError(f"{folder} {what}", hint="`kerncap extract` makes one; give its folder")
    return folder


def find_variant(folder: Path, hsaco: str | PathLike[str] | None) -> Path | None:
    """Where a code object is: in the current folder, else in the project.

    In a project of a CUDA kernel, what the documentation calls ``optimized.hsaco`` is a cubin or PTX.
    Raises UsageError if it is in neither.
    """
    if hsaco is None:
        return None
    places = [Path(hsaco), folder / hsaco]
    if places[1].suffix == ".hsaco":
        places += [places[1].with_suffix(form) for form in (".cubin", ".ptx")]
    for path in places:
        if path.is_file():
            return path
    raise UsageError(
        f"no such code object: {hsaco}, neither here nor in {folder}", hint="`make recompile` makes one"
    )
