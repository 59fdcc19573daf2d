"""Which artifacts a stage works on: those of its arguments, else those that the stage before it names.

``kc-capture ... | kc-locate | kc-generate``: each stage writes one digest a line, and the next one reads them
as they come, so that it starts on the first while the stage before still makes the second.
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

# Longer than any digest, name or path; a pipe full of something else is refused, not read to its end.
_LONGEST_LINE = 4096
_MISSING = "no artifact given"
_NAME_ONE = (
    "name one, as `@capture` for the latest capture (`kc-store ls` lists them), or pipe a stage into this one"
)


def artifact_texts(
    arguments: Sequence[str] | None,
    stream: TextIO | None = None,
    otherwise: str | None = None,
    missing: tuple[str, str] = (_MISSING, _NAME_ONE),
) -> Iterator[str]:
    """Yield what the user, or the stage before in a pipe, calls the artifacts.

    Standard input names artifacts where it is a pipe or a file. If that is empty, the stage before failed:
    nothing is taken instead. A terminal, ``/dev/null`` and a closed standard input name none.
    ``otherwise``: what is taken, and said to be, in these three cases.
    ``missing``: what is said without it, and the next step.
    Raises UsageError without it, ArtifactNotFound when the stage before made nothing.
    """
    if arguments:
        yield from arguments
        return
    stream = sys.stdin if stream is None else stream
    if stream is None or not _names_artifacts(stream):
        if otherwise is not None:
            say(f"no artifact given: {f'the latest {otherwise[1:]}'.strip()} is taken ({otherwise})")
            yield otherwise
            return
        raise UsageError(missing[0], hint=missing[1])
    yield from _lines(stream)


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
    # Some shells make their pipes of sockets.
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _lines(stream: TextIO) -> Iterator[str]:
    found = False
    while line := stream.readline(_LONGEST_LINE + 1):
        text = line.strip()
        if not text:
            continue
        if text.startswith("{"):
            raise UsageError(
                "standard input holds JSON, and a pipe carries digests",
                hint="leave out `--json` in the stage before: this one finds the manifest by its digest",
            )
        if len(line) > _LONGEST_LINE or not text.isprintable():
            raise UsageError(
                "standard input is not a list of artifacts, one digest a line",
                hint="pipe a kc- stage into this one, or give the artifact as an argument",
            )
        found = True
        yield text
    if not found:
        raise ArtifactNotFound(
            "no artifact came through the pipe: the stage before this one failed or made none",
            hint="its own message is above; if no stage stands before this one, name the artifact",
        )
