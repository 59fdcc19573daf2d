"""Two kinds of workers: some judge on cores, by the software GPU; others, with a GPU, time what is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.evaluate.contract import Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from kerncap_stages.evaluate.contract import Ready, Worker, Workforce
    from kerncap_stages.evaluate.tasks import Result


class SplitWorkforce:
    """Starts both kinds, each at places of its own: first those that judge."""

    machine: str | None = None  # each node tells

    def __init__(self, judges: Workforce, timers: Workforce) -> None:
        self.count = judges.count + timers.count
        self.roles = (Role.JUDGES,) * judges.count + (Role.TIMES,) * timers.count
        self.builds = judges.builds
        self.max_starts = judges.max_starts
        self._judges = judges
        self._timers = timers

    def start(self, place: int, tell: Callable[[Worker, Ready | Result | None], None]) -> Worker:
        """Start a worker of the place's kind."""
        kind = self._judges if self.roles[place] is Role.JUDGES else self._timers
        return kind.start(place, tell)

    def check(self, case: int) -> None:
        """Let those that judge look."""
        self._judges.check(case)

    def end(self) -> None:
        """Leave both."""
        try:
            self._judges.end()
        finally:
            self._timers.end()
