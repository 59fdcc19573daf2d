"""The contract between the coordinator and those that judge for it: where they run is known below it alone.

Three modules fulfil it: ``local`` (processes on this machine), ``on_ray`` and ``on_slurm`` (both by way of
``remote``, over a channel to a node).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kerncap_stages.digest import Digest
    from kerncap_stages.evaluate.tasks import Result, Task
    from kerncap_stages.store import Store


class Role(StrEnum):
    """What a worker does with a variant."""

    BOTH = "both"  # it judges it, and times it if it is right
    JUDGES = "judges"
    TIMES = "times"  # if another one has judged that it is right


@dataclass(frozen=True)
class Ready:
    """A worker can take tasks. ``machine``: identifies the machine that it runs on, as verdicts record it."""

    machine: str


class VerdictSource(Protocol):
    """Where the verdicts of a worker are until they are in the user's store."""

    def publish(
        self, made: Mapping[Digest, Sequence[Digest]], store: Store, choose_time_ns: Callable[[int], int]
    ) -> None:
        """Bring verdicts into a store, and list them there, each with its parents: all of them or none.

        choose_time_ns: returns the time of the first of so many.
        """


class Worker(Protocol):
    """Judges one variant at a time.

    place: its number among the workers. task: what it works on. machine: known when it is ready. is_ending:
    it takes no more tasks. is_lost: it ended for a reason that is not its task's, such as a lost node.
    """

    place: int
    task: Task | None
    machine: str | None
    is_ending: bool

    @property
    def is_lost(self) -> bool:
        """Whether it ended for a reason that is not its task's."""

    @property
    def source(self) -> VerdictSource:
        """Where its verdicts are."""

    def give(self, task: Task) -> None:
        """Give it a task. If it has died, its end is told."""

    def end(self) -> None:
        """End it, whatever it does, and remove what it left."""

    def explain_death(self) -> str:
        """Explain why it ended."""


class Workforce(Protocol):
    """Starts workers at one kind of place.

    count: how many run at the same time. builds: how many sources may be compiled here meanwhile. max_starts:
    how often in a row one may end without a result, until its place counts as broken. machine: of all
    workers, if that is known before any is ready. roles: of the worker at each place.
    """

    count: int
    roles: tuple[Role, ...]
    builds: int
    max_starts: int
    machine: str | None

    def start(self, place: int, tell: Callable[[Worker, Ready | Result | None], None]) -> Worker:
        """Start a worker. It may have to wait for its turn on a cluster.

        tell: called in threads when it is ready, with each result, and at last with None, when it has ended.
        """

    def check(self, case: int) -> None:
        """Look whether the captured kernel replays, after several failures and no verdict.

        Raises DeviceError or ArtifactError if it does not. Where workers look themselves, nothing is done.
        """

    def end(self) -> None:
        """Leave what was joined, when all workers have ended."""
