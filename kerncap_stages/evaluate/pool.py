"""Hands tasks to workers, and starts workers again that have ended, died or grown too large."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from kerncap_stages.errors import DeviceError
from kerncap_stages.evaluate.contract import Role
from kerncap_stages.evaluate.tasks import Task
from kerncap_stages.validate.request import draw_seed

if TYPE_CHECKING:
    from collections.abc import Callable

    from kerncap_stages.evaluate.contract import Ready, Worker, Workforce
    from kerncap_stages.evaluate.entries import Answer, Entry
    from kerncap_stages.evaluate.subject import OpenedSubject
    from kerncap_stages.evaluate.tasks import Result
    from kerncap_stages.validate.request import JudgeSettings

_MAX_ENDED_AT_ONCE = 32


@dataclass(frozen=True)
class Wanted:
    """One variant on one case. ``judged``: what is known of it; it is right, and is only timed.

    alone: in processes that no other variant has run in.
    """

    entry: Entry
    case: int
    judged: Answer | None = None
    alone: bool = False


class Side:
    """The workers of one role: what waits for them, and the places where more can start."""

    def __init__(self) -> None:
        self.places: list[int] = []
        self.waiting: deque[Wanted] = deque()
        self.workers: list[Worker] = []


@dataclass(frozen=True)
class Buried:
    """A worker that has ended: the task that it did not answer, and why it ended.

    is_lost: for a reason that is not the task's.
    """

    wanted: Wanted | None
    why: str
    is_lost: bool


class Seeds:
    """Chooses the seeds of fresh values. Several variants share one, if all were read before it was chosen.

    So no variant can be made for its seed, and the captured kernel is replayed from it only once a worker.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self._given = settings.seed
        self._is_used = settings.perturb and settings.fresh_values
        self._seed = 0
        self._read = -1

    def choose(self, entry: Entry, read: int) -> int | None:
        """Return the seed for a variant. ``read``: how many were read by now."""
        if not self._is_used:
            return None
        if self._given is not None:
            return self._given
        if entry.read_at > self._read:
            self._seed, self._read = draw_seed(), read
        return self._seed


class Pool:
    """The workers, and what they still have to do."""

    def __init__(
        self,
        subject: OpenedSubject,
        settings: JudgeSettings,
        workforce: Workforce,
        tell: Callable[[Worker, Ready | Result | None], None],
    ) -> None:
        """``tell``: called in threads when a worker is ready, with each result, and with None at its end."""
        self._subject = subject
        self._workforce = workforce
        self._tell = tell
        self._seeds = Seeds(settings)
        self._sides: dict[Role, Side] = {}
        for place in reversed(range(workforce.count)):
            self._sides.setdefault(workforce.roles[place], Side()).places.append(place)
        self._given: dict[int, Wanted] = {}
        self._failed_starts: dict[int, int] = {}
        self._number = 0

    def put(self, wanted: Wanted, *, first: bool = False) -> None:
        """Add something to do."""
        role = Role.JUDGES if wanted.judged is None else Role.TIMES
        waiting = self._sides[role if self.times_apart else Role.BOTH].waiting
        if first:
            waiting.appendleft(wanted)
        else:
            waiting.append(wanted)

    def take_back(self) -> list[Wanted]:
        """Return all that no worker has begun, which is then no longer here."""
        found: list[Wanted] = []
        for side in self._sides.values():
            found += side.waiting
            side.waiting.clear()
        return found

    @property
    def times_apart(self) -> bool:
        """Whether some workers judge and others time."""
        return Role.BOTH not in self._sides

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and no worker is at work."""
        return not self._given and not any(side.waiting for side in self._sides.values())

    def hand_out(self, read: int) -> None:
        """Give each worker that has nothing to do a task, and start workers. ``read``: variants, by now."""
        for side in self._sides.values():
            for worker in side.workers:
                if not side.waiting:
                    break
                if worker.machine is not None and worker.task is None and not worker.is_ending:
                    self._give(worker, side.waiting.popleft(), read)
            coming = sum(each.machine is None for each in side.workers)
            while side.places and coming < len(side.waiting):
                side.workers.append(self._workforce.start(side.places.pop(), self._tell))
                coming += 1

    def mark_ready(self, worker: Worker, ready: Ready) -> None:
        """Let a worker have tasks."""
        worker.machine = ready.machine

    def take(self, worker: Worker, result: Result) -> Wanted:
        """Return what a result answers; the worker is free again, unless it ends."""
        self._failed_starts.pop(worker.place, None)
        worker.task = None
        worker.is_ending = result.again
        return self._given.pop(result.number)

    def bury(self, worker: Worker) -> Buried:
        """Remove a worker that has ended.

        Raises DeviceError if no place is left where one with its role could start.
        """
        lost = None if worker.task is None else self._given.pop(worker.task.number)
        why, is_lost, place = worker.explain_death(), worker.is_lost, worker.place
        self._remove(worker)
        side = self._find_side(worker)
        if worker.machine is None or is_lost:
            starts = self._failed_starts[place] = self._failed_starts.get(place, 0) + 1
            if starts >= self._workforce.max_starts:
                side.places.remove(place)
        if not side.places and not side.workers:
            raise DeviceError(
                why, hint="`kc-validate` of one variant says more; `kc-show --about` lists GPUs"
            )
        return Buried(lost, why, is_lost)

    def end(self) -> None:
        """End all workers."""
        try:
            workers = [each for side in self._sides.values() for each in side.workers]
            if workers:
                with ThreadPoolExecutor(min(len(workers), _MAX_ENDED_AT_ONCE)) as threads:
                    list(threads.map(self._remove, workers))
        finally:
            self._workforce.end()

    def _give(self, worker: Worker, wanted: Wanted, read: int) -> None:
        self._number += 1
        request = self._subject.requests[wanted.case]
        self._given[self._number] = wanted
        worker.give(
            Task(
                number=self._number,
                capture=request.capture,
                source=request.source,
                code=str(wanted.entry.code),
                shape=None if wanted.entry.shape is None else asdict(wanted.entry.shape),
                seed=self._seeds.choose(wanted.entry, read),
                judged=wanted.judged is not None,
                alone=wanted.alone,
            )
        )

    def _remove(self, worker: Worker) -> None:
        worker.end()
        side = self._find_side(worker)
        side.workers.remove(worker)
        side.places.append(worker.place)

    def _find_side(self, worker: Worker) -> Side:
        return self._sides[self._workforce.roles[worker.place]]
