"""Progress of a long operation on standard error: share, speed and time left."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from kerncap_stages.cli.console import open_messages, say
from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Report = Callable[[int, int], None]  # done, total
    PhaseReport = Callable[[str, int, int], None]  # phase, done, total


@contextmanager
def progress(title: str, *, counts_bytes: bool) -> Iterator[Report]:
    """Show a bar while an operation runs; yields the function to call with (done, total).

    Shows nothing if standard error is not a terminal: a log needs no bar.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    # Most stages end before they show a bar.
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    sizes = (DownloadColumn(binary_units=True), TransferSpeedColumn())  # speeds use decimal units everywhere
    amounts = sizes if counts_bytes else (MofNCompleteColumn(),)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *amounts,
        TimeRemainingColumn(),
        console=open_messages(),
        transient=True,
    )
    task = bar.add_task(title, total=None)

    def report(done: int, total: int) -> None:
        # The bar is on the screen only while the operation is unfinished.
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
    """Progress in whole lines: a bar would overwrite what the user's program wrote since.

    Writes a line every two seconds, and one at the end of an operation that is large or took over a second.
    """

    _FIRST_S, _EVERY_S = 1.0, 2.0
    _LARGE_BYTES = 32 << 20

    def __init__(self, title: str, write: Callable[[str], None]) -> None:
        self._title = title
        self._write = write
        self._done = self._total = 0

    def report(self, done_bytes: int, total_bytes: int) -> None:
        """Take note that ``done_bytes`` of ``total_bytes`` are done, and write a line if one is due."""
        now = time.monotonic()
        if total_bytes != self._total or done_bytes <= self._done:
            self._began, self._at_begin = now, done_bytes
            self._next = now + self._FIRST_S
            self._shows_end = total_bytes >= self._LARGE_BYTES
        self._done, self._total = done_bytes, total_bytes
        is_over = done_bytes >= total_bytes
        if now < self._next and not (is_over and self._shows_end):
            return
        self._next, self._shows_end = now + self._EVERY_S, True
        self._write(self._format_line(now - self._began))

    def _format_line(self, seconds: float) -> str:
        copied = self._done - self._at_begin
        parts = [f"{formats.format_size(self._done)} of {formats.format_size(self._total)}"]
        if copied and seconds > 0:
            left_s = (self._total - self._done) * seconds / copied
            parts.append(formats.format_rate(copied, seconds * 1e9))
            parts += [f"{formats.format_age(left_s + 1)} left"] if self._done < self._total else []
        return f"{self._title}: {', '.join(parts)}"


@contextmanager
def show_lines(title: str) -> Iterator[Report]:
    """Show how many bytes are done, in whole lines: the user's program may write to the same terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    yield Lines(title, say).report


@contextmanager
def show_phases(*, counting_bytes: str) -> Iterator[PhaseReport | None]:
    """Show a bar for each phase of an operation in turn; yields None if standard error is not a terminal.

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
