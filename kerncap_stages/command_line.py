"""The program's command in a stage's command line: everything after the first ``--``."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

from kerncap_stages.errors import KerncapError, UsageError

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest
    from kerncap_stages.store import Store


class ProgramCommand(TyperCommand):
    """``cls=`` of a command that takes a program: ``--help`` says where that stands."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- PROGRAM [ARGS]...]"]


def take_command(argv: list[str] | None = None) -> tuple[str, ...] | None:
    """Cut the command off ``sys.argv`` and return it; none when there is no ``--``.

    Done before the options are parsed: an argument of the program must never be taken for one of ours.
    """
    arguments = sys.argv if argv is None else argv
    if "--" not in arguments:
        return None
    at = arguments.index("--")
    command = tuple(arguments[at + 1 :])
    del arguments[at:]
    return command


def resolve_artifact(store: Store, text: str, usage: str) -> Digest:
    """The artifact of a text, where a program may have been meant: ``usage`` says how that is written.

    Raises UsageError for a program that no artifact is called like, else what the store says of the text.
    """
    try:
        return store.resolve(text)
    except KerncapError as error:
        if not (os.path.isfile(text) or shutil.which(text)):  # noqa: PTH113 - pathlib is not needed for this
            raise
        raise UsageError(
            f"no artifact is called {text}, which is a program",
            hint=f"put -- before the program: {usage} -- {text}",
        ) from error
