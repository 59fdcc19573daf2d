"""How far a long operation is, on standard error: share, speed and time left."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Report = Callable[[int, int], None]  # done, in all
    PhaseReport = Callable[[str, int, int], None]  # phase, done, in all


@contextmanager
def progress(title: str, *, counts_bytes: bool) -> Iterator[Report]:
    """Show a bar while something is on its way; yields the function to call with (done, in all).

    Nothing is shown where standard error is no terminal: a log needs no bar.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    from kerncap_stages.console import people

    sizes = (DownloadColumn(binary_units=True), TransferSpeedColumn())  # speeds are decimal everywhere
    amounts = sizes if counts_bytes else (MofNCompleteColumn(),)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *amounts,
        TimeRemainingColumn(),
        console=people(),
        transient=True,
    )
    task = bar.add_task(title, total=None)

    def report(done: int, total: int) -> None:
        # Only while there is something to show: the user's program may write to the same terminal.
        bar.update(task, completed=done, total=total)
        if done < total:
            bar.start()
        else:
            bar.stop()

    try:
        yield report
    finally:
        bar.stop()


@contextmanager
def phases(*, counting_bytes: str) -> Iterator[PhaseReport | None]:
    """Show a bar for each phase of the block, one after the other; yields None where nobody would see them.

    ``counting_bytes``: the phase whose numbers are bytes.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    with ExitStack() as shown:
        current: tuple[str, Report] | None = None

        def report(phase: str, done: int, total: int) -> None:
            nonlocal current
            if current is None or current[0] != phase:
                shown.close()
                bar = progress(phase, counts_bytes=phase == counting_bytes)
                current = (phase, shown.enter_context(bar))
            current[1](done, total)

        yield report
