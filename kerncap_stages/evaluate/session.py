"""Ask and tell: an evaluation that runs in a thread of its own while others hand it variants one by one.

Its workers, and the state that they have restored, live until the session ends. kc-tune, kc-evaluate-serve
and the strategy for Kernel Tuner work by it.
"""

from __future__ import annotations

import queue
import threading
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING

from kerncap_stages.errors import UsageError
from kerncap_stages.evaluate.engine import EvaluateSettings, EvaluationStopped, run_evaluate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerncap_stages.digest import Digest
    from kerncap_stages.evaluate.candidates import Candidate
    from kerncap_stages.evaluate.subject import Subject
    from kerncap_stages.manifests.evaluation import EvaluatedVariant, Evaluation

    Judging = Future[EvaluatedVariant]

__all__ = ["EvaluateSettings", "Session"]


class Session:
    """Takes variants from any thread. Nothing is started before the first one."""

    def __init__(self, subject: Subject, settings: EvaluateSettings) -> None:
        self._subject = subject
        self._settings = settings
        self._given: queue.SimpleQueue[tuple[Candidate, Judging] | None] = queue.SimpleQueue()
        self._judged: dict[int, Judging] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_over = self._is_stopped = False
        self._made: tuple[Digest, Evaluation] | None = None
        self._error: BaseException | None = None

    def submit(self, candidate: Candidate) -> Judging:
        """Hand in a variant. The result has no rank yet, and its verdict is in the store by then.

        A future that is cancelled before its variant is read is left out. The future has an exception if the
        evaluation itself fails: DeviceError, if the captured kernel cannot be replayed here.
        Raises UsageError after the end of the session, and the exception of one that has failed.
        """
        judging: Judging = Future()
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._is_over:
                raise UsageError("the session has ended", hint="open another one")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            self._given.put((candidate, judging))
        return judging

    def end(self, *, now: bool = False) -> tuple[Digest, Evaluation] | None:
        """Judge what was handed in, and publish the evaluation; None if there were no variants.

        now: judge nothing more; futures of what was not judged are cancelled.
        Raises the exception with which the evaluation failed.
        """
        with self._lock:
            self._is_over = True
            self._is_stopped = self._is_stopped or now
            self._given.put(None)
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error
        return self._made

    def _run(self) -> None:
        error: BaseException = CancelledError()
        try:
            self._made = run_evaluate(self._subject, self._take(), self._settings, self._tell)
        except BaseException as failure:  # whatever it is, somebody waits for the variants
            error = self._error = failure
        with self._lock:
            self._is_over = True
        left = list(self._judged.values())
        while not self._given.empty():
            if (given := self._given.get()) is not None:
                left.append(given[1])
        for judging in left:
            if not judging.done():
                judging.set_exception(error)

    def _take(self) -> Iterator[Candidate]:
        """Yield what is handed in; called in the thread that reads variants."""
        number = 0
        while (given := self._given.get()) is not None:
            candidate, judging = given
            if self._is_stopped:
                self._given.put(given)  # for whoever waits
                break
            if judging.set_running_or_notify_cancel():
                self._judged[number] = judging
                number += 1
                yield candidate
        if self._is_stopped:
            raise EvaluationStopped

    def _tell(self, number: int, variant: EvaluatedVariant) -> None:
        self._judged.pop(number).set_result(variant)
