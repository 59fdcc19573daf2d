"""Replayers of the software GPU that are started before it is known what they replay, one ahead.

ROCr takes 12 ms to load. So while a worker of kc-evaluate compares what a replay has left, the process of its
next replay loads it. Each process replays once, as all on the software GPU do.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kerncap_stages.replay.kept import KeptReplayers
from kerncap_stages.replay.process import finish_replayer
from kerncap_stages.replay.standby import Standby, start_waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from kerncap_stages.replay.process import Report
    from kerncap_stages.replay.relay import Relay


@dataclass(frozen=True)
class _Ahead(Standby):
    """A replayer that waits for its arguments. Its exit code is the process's own, which may be a signal."""

    relay: Relay
    start_next: Callable[[], None] = field(kw_only=True)

    def run(
        self,
        timeout_s: float | None,
        progress: tuple[Path, Report | None] | None = None,
        setup_s: float = 0.0,
        states_s: float = 0.0,
    ) -> int | None:
        """Return what ``run_replayer`` returns: when the process has ended."""
        with self.input:
            code = finish_replayer(
                self.process, self.relay, timeout_s, progress=progress, setup_s=setup_s, states_s=states_s
            )
        with contextlib.suppress(OSError):  # without it the next replay starts when it is asked for
            self.start_next()
        return code


class ReplayersAhead(KeptReplayers):
    """One replayer that waits. The next one is started when it has ended."""

    def __init__(self, device_index: int, environment: Mapping[str, str]) -> None:
        """``environment``: of the processes. A replay gets further variables with its arguments."""
        super().__init__("hsa", device_index)
        self._environment = dict(environment)

    def start(self, count: int) -> None:  # noqa: ARG002 - two at once slow each other down here
        """Start one, unless one waits."""
        if self._waiting:
            return
        started = start_waiting(self._words, self._environment)
        self._waiting.append(_Ahead(*started, start_next=lambda: self.start(1)))

    def take(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        has_variant: bool = True,  # noqa: ARG002 - each has a process of its own
    ) -> Standby | None:
        """Send arguments to the one that waits, and what it lacks of the environment."""
        wanted = environment or {}
        words = [*arguments]
        for name, value in wanted.items():
            if self._environment.get(name) != value:
                words += ["--set", f"{name}={value}"]
        if any(name not in wanted for name in self._environment):
            return None  # a process that waits can be given variables, but none can be taken away
        taken = super().take(words)
        self._taken.clear()  # each is waited for
        return taken
