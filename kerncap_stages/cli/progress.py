"""How far a long operation is, on standard error: share, speed and time left."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from kerncap_stages.cli.console import people, say
from kerncap_stages.text import formats

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
        # Only while there is something to show.
        bar.update(task, completed=done, total=total)
        if done < total:
            bar.start()
        else:
            bar.stop()

    try:
        yield report
    finally:
        bar.stop()


class Lines:
    """Progress in whole lines: a bar goes back to its begin, where a program may have written since.

    One line every two seconds, and one at the end of what is large or took more than a second.
    """

    _FIRST_S, _EVERY_S = 1.0, 2.0
    _LARGE_BYTES = 32 << 20

    def __init__(self, title: str, write: Callable[[str], None]) -> None:
        self._title = title
        self._write = write
        self._done = self._total = 0

    def report(self, done_bytes: int, total_bytes: int) -> None:
        """So many bytes of so many are done."""
        now = time.monotonic()
        if total_bytes != self._total or done_bytes <= self._done:
            self._began, self._at_begin = now, done_bytes
            self._next = now + self._FIRST_S
            self._told = total_bytes >= self._LARGE_BYTES
        self._done, self._total = done_bytes, total_bytes
        is_over = done_bytes >= total_bytes
        if now < self._next and not (is_over and self._told):
            return
        self._next, self._told = now + self._EVERY_S, True
        self._write(self._line(now - self._began))

    def _line(self, seconds: float) -> str:
        copied = self._done - self._at_begin
        parts = [f"{formats.size(self._done)} of {formats.size(self._total)}"]
        if copied and seconds > 0:
            left_s = (self._total - self._done) * seconds / copied
            parts.append(formats.rate(copied, seconds * 1e9))
            parts += [f"{formats.age(left_s + 1)} left"] if self._done < self._total else []
        return f"{self._title}: {', '.join(parts)}"


@contextmanager
def lines(title: str) -> Iterator[Report]:
    """Show how many bytes are done while a program of the user's may write to the same terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    yield Lines(title, say).report


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
