"""Check the documented arguments: split commands, and refuse what is not supported."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from kerncap_stages.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

LANGUAGES = ("hip", "cuda", "triton")
TRITON_BACKENDS = ("hsa", "python")
_SHELL_WORDS = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>&1"})


def split_command(text: str) -> tuple[str, ...]:
    """Split a command into words as a shell would. No shell is involved.

    Raises UsageError for a command that only a shell could run.
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
            f"the command is run without a shell, which {words[0]!r} needs", hint=f"env {words[0]} ..."
        )
    wild = [word for word in words if word in _SHELL_WORDS]
    if wild:
        raise UsageError(
            f"the command is run without a shell, and {wild[0]!r} needs one",
            hint="run the shell: bash -c '...'",
        )
    return tuple(words)


def check_language(language: str | None, triton_backend: str) -> list[str]:
    """Return what the user should know of these values. Raises UsageError for an unknown one."""
    if language is not None and language not in LANGUAGES:
        raise UsageError(f"unknown language {language!r}", hint="hip, cuda or triton; or leave it out")
    if triton_backend not in TRITON_BACKENDS:
        raise UsageError(
            f"unknown Triton backend {triton_backend!r}", hint="hsa or python; they do the same here"
        )
    if triton_backend == "python":
        return ["--triton-backend python does what hsa does: kernels are captured below Python"]
    return []


def read_command(cmd: Sequence[str] | str) -> tuple[str, ...]:
    """Return the program and its arguments. A string is split as a shell would.

    Raises UsageError if the command is empty.
    """
    words = split_command(cmd) if isinstance(cmd, str) else tuple(cmd)
    if not words:
        raise UsageError("the command is empty", hint="give the program and its arguments")
    return words


def read_macros(defines: Sequence[str]) -> tuple[str, ...]:
    """Return macros as ``NAME`` or ``NAME=VALUE``, without a ``-D`` before them."""
    return tuple(define.removeprefix("-D").lstrip() for define in defines)
