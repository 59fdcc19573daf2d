"""Shows variants as they are judged: lines in a log; on a terminal a bar, with the best variant so far."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Self

from kerncap_stages.cli.console import open_messages, say
from kerncap_stages.manifests.evaluation import Outcome
from kerncap_stages.pages.evaluation import format_line, name_of
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from types import TracebackType

    from kerncap_stages.manifests.evaluation import EvaluatedVariant

_MAX_NAME = 40


class EvaluateProgress:
    """Shows each variant during a ``with`` block."""

    def __init__(self, total: int | None, *, verbose: bool) -> None:
        """``total``: how many variants there are, if known. ``verbose``: show each on a terminal, too."""
        self._total = total
        self._verbose = verbose
        self._best: EvaluatedVariant | None = None
        self._done = self._right = 0
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if sys.stderr is not None and sys.stderr.isatty():
            # A log needs no bar.
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                MofNCompleteColumn(),
                BarColumn(),
                TextColumn("{task.description}", markup=False),
                TimeRemainingColumn(),
                console=open_messages(),
                transient=True,
            )
            self._task = self._bar.add_task("", total=self._total)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def add(self, variant: EvaluatedVariant) -> None:
        """Show one more variant."""
        self._done += 1
        self._right += variant.outcome is Outcome.RIGHT
        is_better = variant.ratio is not None and (
            self._best is None or self._best.ratio is None or variant.ratio < self._best.ratio
        )
        if is_better:
            self._best = variant
        line = make_printable(format_line(variant))
        if self._bar is None:
            say(line)
            return
        if is_better or self._verbose:
            self._bar.console.print(line, soft_wrap=True)
        self._bar.update(self._task, completed=self._done, description=self._describe())

    def _describe(self) -> str:
        text = f"{self._right:,} right"
        if self._best is not None:
            name = make_printable(name_of(self._best))
            text += f", best {self._best.ratio:.3f} {name[-_MAX_NAME:]}"
        return text
