"""Which artifacts a stage works on: its arguments, else the digests that standard input holds.

``kc-capture ... | kc-locate | kc-generate``: each stage writes one digest a line. The next stage reads each
line as it comes: it starts on the first artifact while the stage before it still makes the second.
"""

from __future__ import annotations

import os
import stat
import sys
from io import UnsupportedOperation
from typing import TYPE_CHECKING, TextIO

from kerncap_stages.cli.console import say
from kerncap_stages.errors import ArtifactNotFound, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Longer than any digest, name or path. Longer lines are refused without reading them to the end.
_MAX_LINE_LENGTH = 4096
_MISSING = "no artifact given"
_NAME_ONE = (
    "name one, for example `@capture`, the latest capture (`kc-store ls` lists artifacts), or pipe a stage "
    "into this one"
)


def read_artifact_texts(
    arguments: Sequence[str] | None,
    stream: TextIO | None = None,
    otherwise: str | None = None,
    missing: tuple[str, str] = (_MISSING, _NAME_ONE),
) -> Iterator[str]:
    """Yield the names of artifacts: the arguments, else the lines of standard input.

    Standard input is read if it is a pipe or a file. An empty one means that the stage before failed, so
    ``otherwise`` is not used then. A terminal, ``/dev/null`` and a closed standard input name nothing.
    ``otherwise``: the default in these three cases; a message says that it is used.
    ``missing``: the error's message and next step if there is no default.
    Raises UsageError if nothing is named, ArtifactNotFound if the pipe, the file or an argument is empty.
    """
    if arguments:
        for text in arguments:
            if not text.strip():
                raise ArtifactNotFound(
                    "an argument is empty: the stage that should have printed a digest failed, or made no "
                    "artifact",
                    hint="in a script, `set -e` ends it where that stage fails; or name the artifact",
                )
            yield text
        return
    stream = sys.stdin if stream is None else stream
    if stream is None or not _names_artifacts(stream):
        if otherwise is not None:
            say(f"no artifact given: using {f'the latest {otherwise[1:]}'.strip()} ({otherwise})")
            yield otherwise
            return
        raise UsageError(missing[0], hint=missing[1])
    yield from _read_lines(stream)


def has_piped_input() -> bool:
    """Whether standard input is a pipe or a file, and so may carry digests."""
    return sys.stdin is not None and _names_artifacts(sys.stdin)


def _names_artifacts(stream: TextIO) -> bool:
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except UnsupportedOperation:  # a stream in memory
        return not stream.isatty()
    except OSError:
        return False
    # Some shells use sockets for pipes.
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _read_lines(stream: TextIO) -> Iterator[str]:
    found = False
    while line := stream.readline(_MAX_LINE_LENGTH + 1):
        text = line.strip()
        if not text:
            continue
        if text.startswith("{"):
            raise UsageError(
                "standard input holds JSON, and a pipe carries digests",
                hint="leave out `--json` in the stage before: this stage finds the manifest by its digest",
            )
        if len(line) > _MAX_LINE_LENGTH or not text.isprintable():
            raise UsageError(
                "standard input is not a list of artifacts with one digest a line",
                hint="pipe a kc- stage into this one, or give the artifact as an argument",
            )
        found = True
        yield text
    if not found:
        raise ArtifactNotFound(
            "standard input is empty: the stage before this one failed or made no artifact",
            hint="that stage's own message is above; if there is no stage before this one, name the artifact",
        )
