"""Hands tasks to workers, and starts workers again that have ended, died or grown too large."""

from __future__ import annotations

import os
import secrets
from collections import deque
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from kerncap_stages.errors import DeviceError
from kerncap_stages.evaluate.tasks import Setup, Task
from kerncap_stages.evaluate.workers import WorkerProcess, choose_gpu
from kerncap_stages.validate.request import SEEDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from kerncap_stages.evaluate.entries import Answer, Entry
    from kerncap_stages.evaluate.scratch import ScratchMaker
    from kerncap_stages.evaluate.subject import OpenedSubject
    from kerncap_stages.evaluate.tasks import Result
    from kerncap_stages.validate.request import JudgeSettings

_MAX_WORKER_BYTES = 384 << 20  # Python, numpy and the capture take about 100 MiB


@dataclass(frozen=True)
class Wanted:
    """One variant on one case. ``judged``: what is known of it; it is right, and is only timed."""

    entry: Entry
    case: int
    judged: Answer | None = None


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
            self._seed, self._read = secrets.randbelow(SEEDS), read
        return self._seed


class Pool:
    """The workers, and what they still have to do."""

    def __init__(
        self,
        subject: OpenedSubject,
        settings: JudgeSettings,
        scratches: ScratchMaker,
        *,
        workers: int,
        runs: int,
        fresh: bool,
        max_replay_bytes: int,
        tell: Callable[[WorkerProcess, Result | None], None],
    ) -> None:
        """``tell``: called in threads with each result, and with None when a worker has ended."""
        self._subject = subject
        self._settings = settings
        self._scratches = scratches
        self._runs = runs
        self._fresh = fresh
        self._max_replay_bytes = max_replay_bytes
        self._tell = tell
        self._seeds = Seeds(settings)
        self._waiting: deque[Wanted] = deque()
        self._given: dict[int, Wanted] = {}
        self._places = list(range(workers))[::-1]
        self._workers: list[WorkerProcess] = []
        self._number = 0

    def put(self, wanted: Wanted, *, first: bool = False) -> None:
        """Add something to do."""
        if first:
            self._waiting.appendleft(wanted)
        else:
            self._waiting.append(wanted)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and no worker is at work."""
        return not self._waiting and not self._given

    def hand_out(self, read: int) -> None:
        """Give each worker that has nothing to do a task, and start workers. ``read``: variants, by now."""
        while self._waiting:
            worker = next((each for each in self._workers if each.task is None and not each.is_ending), None)
            if worker is None:
                if not self._places:
                    return
                worker = self._start(self._places.pop())
            wanted = self._waiting.popleft()
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
                )
            )

    def take(self, worker: WorkerProcess, result: Result) -> Wanted:
        """Return what a result answers; the worker is free again, unless it ends."""
        worker.task = None
        worker.is_ending = result.again
        return self._given.pop(result.number)

    def bury(self, worker: WorkerProcess) -> tuple[Wanted | None, str]:
        """Remove a worker that has ended. Returns the task that it did not answer, and why it ended.

        Raises DeviceError if it ended before it was ready: others would, too.
        """
        lost = None if worker.task is None else self._given.pop(worker.task.number)
        why = worker.explain_death()
        self._remove(worker)
        if not worker.is_ready:
            raise DeviceError(
                why, hint="`kc-validate` of one variant says more; `kc-show --about` lists GPUs"
            )
        return lost, why

    def end(self) -> None:
        """End all workers."""
        for worker in self._workers[:]:
            self._remove(worker)

    def _remove(self, worker: WorkerProcess) -> None:
        worker.end()
        self._workers.remove(worker)
        self._places.append(worker.place)

    def _start(self, place: int) -> WorkerProcess:
        first = self._subject.first
        scratch = self._scratches.make()
        setup = Setup(
            store=str(scratch.store.root),
            lists=scratch.is_users,
            settings=self._settings,
            machine=self._subject.machine,
            runs=self._runs,
            fresh=self._fresh,
            max_store_bytes=scratch.max_growth_bytes,
            max_memory_bytes=_MAX_WORKER_BYTES,
            max_replay_bytes=self._max_replay_bytes,
        )
        own = choose_gpu(
            first.environment.backend,
            first.dispatch.device_index,
            place,
            is_software=first.device.software,
        )
        try:
            worker = WorkerProcess(place, setup, scratch, {**os.environ, **own}, self._tell)
        except BaseException:
            scratch.remove()
            raise
        self._workers.append(worker)
        return worker
