"""The tasks of a service: which wait, which were judged; and the thread that hands them to evaluations.

One evaluation runs at a time, because each has a worker on every GPU, and times count only without others.
While tasks of several subjects wait, they take turns.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict, deque
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from kerncap_stages.errors import KerncapError, Refused
from kerncap_stages.evaluate.candidates import Candidate
from kerncap_stages.evaluate.session import EvaluateSettings, Session
from kerncap_stages.machine.temporary import TemporaryFolder
from kerncap_stages.manifests.evaluation import Outcome
from kerncap_stages.replay.variant_shape import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from pathlib import Path

    from kerncap_stages.digest import Digest
    from kerncap_stages.evaluate.subject import Subject
    from kerncap_stages.manifests.evaluation import EvaluatedVariant
    from kerncap_stages.serve.posted import PostedVariant

MAX_WAITING = 10_000
MAX_WAITING_BYTES = 1 << 30
_MAX_KEPT = 50_000  # tasks that are done
_MAX_TURN = 256  # tasks of a subject while another one waits
_MAX_SESSION = 2000  # variants of one evaluation
_IDLE_S = 60.0  # after that the evaluation ends, and is published
_LOOK_S = 0.2


class TooManyTasks(Refused):
    """No more tasks are taken for now."""


class Status(StrEnum):
    """What became of a task."""

    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"  # the evaluation itself: no GPU, a full disk; post it again


@dataclass(eq=False)
class Task:
    """A variant that a client posted. ``then``: called when it is done, in a thread of ours."""

    id: str
    subject: str
    variant: PostedVariant
    status: Status = Status.WAITING
    result: dict[str, Any] | None = None
    error: str | None = None
    then: list[Callable[[], None]] = field(default_factory=list)

    @property
    def is_without_verdict(self) -> bool:
        """Whether it is over, and the variant could not be judged: posting it again judges it again."""
        if self.status is Status.FAILED:
            return True
        return self.result is not None and self.result["outcome"] == Outcome.UNJUDGED

    def describe(self) -> dict[str, Any]:
        """Return it as a client gets it."""
        about = {"id": self.id, "name": self.variant.name, "status": str(self.status)}
        if self.result is not None:
            about["result"] = self.result  # type: ignore[assignment]
        if self.error is not None:
            about["error"] = self.error
        return about


class Tasks:
    """All tasks of a service. Threads may call it."""

    def __init__(
        self,
        settings: EvaluateSettings,
        published: Callable[[Subject, Digest], None] | None = None,
        log: Callable[[str], None] | None = None,
    ) -> None:
        """``published``: called with each evaluation that was published, in a thread of ours.

        log: takes a line for each task that is over.
        """
        self._settings = settings
        self._log = log
        self._published = published
        self._lock = threading.Condition()
        self._known: OrderedDict[str, Task] = OrderedDict()
        self._queues: OrderedDict[str, deque[Task]] = OrderedDict()
        self._subjects: dict[str, Subject] = {}
        self._waiting = self._waiting_bytes = 0
        self._is_stopped = False
        self._folder = TemporaryFolder("serve")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many tasks are not done."""
        return self._waiting

    def add(self, name: str, subject: Subject, variants: tuple[PostedVariant, ...]) -> list[Task]:
        """Add a task for each variant; a known one is added again only if there is no verdict on it.

        name: of the subject. Raises TooManyTasks if too many wait.
        """
        posted = [(each.make_id(name), each) for each in variants]
        with self._lock:
            new = {identity: len(each.content) for identity, each in posted if self._is_new(identity)}
            size = self._waiting_bytes + sum(new.values())
            if new and (self._waiting + len(new) > MAX_WAITING or size > MAX_WAITING_BYTES):
                raise TooManyTasks(f"{self._waiting:,} tasks wait", hint="post it again later")
            self._subjects[name] = subject
            return [self._add(name, identity, each) for identity, each in posted]

    def find(self, task: str) -> Task | None:
        """Return a task; None if nobody posted it since the service was started, or it was long ago."""
        with self._lock:
            return self._known.get(task)

    def call_when_done(self, task: Task, then: Callable[[], None]) -> None:
        """Call ``then`` when a task is done, or now."""
        with self._lock:
            if task.status is Status.WAITING:
                task.then.append(then)
                return
        then()

    def forget(self, task: Task, then: Callable[[], None]) -> None:
        """Do not call ``then`` any more."""
        with self._lock, contextlib.suppress(ValueError):
            task.then.remove(then)

    def stop(self) -> None:
        """Judge nothing more; publish what was judged."""
        with self._lock:
            self._is_stopped = True
            self._lock.notify_all()
        self._thread.join()
        self._folder.remove()

    def _is_new(self, identity: str) -> bool:
        """Whether a variant is to be judged: nobody posted it, or there is no verdict on it."""
        known = self._known.get(identity)
        return known is None or known.is_without_verdict

    def _add(self, name: str, identity: str, variant: PostedVariant) -> Task:
        if not self._is_new(identity):
            return self._known[identity]
        task = self._known[identity] = Task(identity, name, variant)
        self._known.move_to_end(identity)
        self._queues.setdefault(name, deque()).append(task)
        self._waiting += 1
        self._waiting_bytes += len(variant.content)
        self._forget_old()
        self._lock.notify_all()
        return task

    def _forget_old(self) -> None:
        """Forget the oldest tasks that are done. Their verdicts are in the store."""
        while len(self._known) > _MAX_KEPT + self._waiting:
            oldest = next(each for each in self._known.values() if each.status is not Status.WAITING)
            del self._known[oldest.id]

    def _run(self) -> None:
        while (name := self._wait_for_subject()) is not None:
            turn = _Turn(self, name, self._subjects[name], self._folder.path, self._settings)
            try:
                turn.run()
            finally:
                published = turn.end()
            if published is not None and self._published is not None:
                with contextlib.suppress(KerncapError, OSError):  # the subject's own store has it
                    self._published(self._subjects[name], published)
        with self._lock:
            left = [each for waiting in self._queues.values() for each in waiting]
        for task in left:
            self.finish(task, None, "the service was stopped")

    def _wait_for_subject(self) -> str | None:
        """Return the subject whose tasks come next; None if there is an end."""
        with self._lock:
            while not self._is_stopped:
                for name, waiting in self._queues.items():
                    if waiting:
                        self._queues.move_to_end(name)
                        return name
                self._lock.wait()
            return None

    def take(self, name: str, most: int, timeout_s: float) -> list[Task]:
        """Take tasks of a subject, at most so many. If there are none, wait for one, or for a verdict."""
        with self._lock:
            waiting = self._queues[name]
            if not (waiting and most) and not self._is_stopped:
                self._lock.wait(timeout_s)
            return [waiting.popleft() for _ in range(min(most, len(waiting)))]

    def is_over(self, name: str, served: int) -> bool:
        """Whether a subject's turn is over: the service stops, or others wait and it had its share."""
        with self._lock:
            others = any(waiting for other, waiting in self._queues.items() if other != name)
            mine = bool(self._queues[name])
            return self._is_stopped or (others and (served >= _MAX_TURN or not mine))

    @property
    def is_stopped(self) -> bool:
        """Whether the service ends."""
        return self._is_stopped

    def finish(self, task: Task, variant: EvaluatedVariant | None, error: str | None) -> None:
        """Say what became of a task, and call those who wait for it."""
        with self._lock:
            if variant is not None:
                task.result = variant.model_dump(mode="json", exclude={"rank", "same_as"})
            task.error = error
            task.status = Status.DONE if variant is not None else Status.FAILED
            self._waiting_bytes -= len(task.variant.content)
            task.variant = task.variant.without_content()
            self._waiting -= 1
            then, task.then = task.then, []
            self._lock.notify_all()
        if self._log is not None:
            self._log(_describe_end(task))
        for each in then:
            each()


def _describe_end(task: Task) -> str:
    """Say in a line what became of a task."""
    outcome = f"failed: {task.error}"
    if task.result is not None:
        ratio = task.result["ratio"]
        outcome = task.result["outcome"] + ("" if ratio is None else f", ratio {float(ratio):.3f}")
    return f"task {task.id[:12]} {task.variant.name}: {outcome}"


class _Turn:
    """One evaluation of a subject, to which tasks go while it runs."""

    def __init__(
        self, tasks: Tasks, name: str, subject: Subject, folder: Path, settings: EvaluateSettings
    ) -> None:
        self._tasks = tasks
        self._name = name
        self._folder = folder
        self._session = Session(subject, settings)
        self._running: set[str] = set()
        self._given = 0
        self._is_broken = False  # the evaluation failed; the next turn tries again

    def run(self) -> None:
        """Hand in tasks until others wait for their turn, or there are none for a while."""
        last = time.monotonic()
        while not self._is_done():
            for task in self._tasks.take(self._name, _MAX_TURN - len(self._running), _LOOK_S):
                self._hand_in(task)
            if self._running:
                last = time.monotonic()
            elif time.monotonic() - last > _IDLE_S:
                return
        while self._running and not self._tasks.is_stopped:
            self._tasks.take(self._name, 0, _LOOK_S)

    def _is_done(self) -> bool:
        is_full = self._given >= _MAX_SESSION
        return self._is_broken or is_full or self._tasks.is_over(self._name, self._given)

    def end(self) -> Digest | None:
        """End the evaluation; returns its digest if one was published."""
        made = None
        with contextlib.suppress(Exception):  # those who wait for tasks are told
            made = self._session.end(now=bool(self._running))
        return None if made is None else made[0]

    def _hand_in(self, task: Task) -> None:
        variant = task.variant
        path = self._folder / f"{task.id}{variant.suffix}"
        self._given += 1
        try:
            path.write_bytes(variant.content)
            if variant.launch is not None:
                path.with_suffix(SUFFIX).write_text(variant.launch)
            judging = self._session.submit(Candidate(variant.name or task.id, path, variant.flags))
        except Exception as error:
            self._is_broken = True
            _remove(path)
            self._tasks.finish(task, None, str(error))
            return
        self._running.add(task.id)
        judging.add_done_callback(partial(self._finish, task, path))

    def _finish(self, task: Task, path: Path, judging: Future[EvaluatedVariant]) -> None:
        """Take a verdict; called in a thread of the evaluation."""
        _remove(path)
        self._running.discard(task.id)
        variant, told = None, None
        try:
            variant = judging.result()
        except CancelledError:
            told = "the service was stopped"
        except Exception as error:
            self._is_broken = True
            told = str(error)
        self._tasks.finish(task, variant, told)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_suffix(SUFFIX).unlink(missing_ok=True)
