"""The program's command in a stage's command line: everything after the first ``--``."""

from __future__ import annotations

import sys


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
