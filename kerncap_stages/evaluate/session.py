"""Ask and tell: an evaluation that runs in a thread of its own while others hand it variants one by one.

Its workers, and the state that they have restored, live until the session ends. kc-tune, kc-evaluate-serve
and the strategy for Kernel Tuner work by it.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from concurrent.futures import CancelledError, Future, InvalidStateError
from typing import TYPE_CHECKING

from kerncap_stages.errors import UsageError
from kerncap_stages.evaluate.ends import EvaluationStopped
from kerncap_stages.evaluate.engine import EvaluateSettings, run_evaluate

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
        self._given: deque[tuple[Candidate, Judging]] = deque()
        self._judged: dict[int, Judging] = {}
        self._changed = threading.Condition()
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
        with self._changed:
            if self._error is not None:
                raise self._error
            if self._is_over:
                raise UsageError("the session has ended", hint="open another one")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            self._given.append((candidate, judging))
            self._changed.notify_all()
        return judging

    def end(self, *, now: bool = False) -> tuple[Digest, Evaluation] | None:
        """Judge what was handed in, and publish the evaluation; None if no variant was judged.

        now: judge nothing more; futures of what was not judged are cancelled.
        Raises the exception with which the evaluation failed.
        """
        with self._changed:
            self._is_over = True
            self._is_stopped = self._is_stopped or now
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error
        return self._made

    def _run(self) -> None:
        error: BaseException = CancelledError()
        try:
            self._made = run_evaluate(self._subject, self._take(), self._settings, self._tell)
        except EvaluationStopped:
            pass  # nothing was judged, and there is nothing to publish
        except BaseException as failure:  # whatever it is, somebody waits for the variants
            error = self._error = failure
        with self._changed:
            self._is_over = self._is_stopped = True
            self._changed.notify_all()  # the thread that reads variants ends, too
            left = [*self._judged.values(), *(judging for _, judging in self._given)]
            self._given.clear()
        for judging in left:
            with contextlib.suppress(InvalidStateError):  # it is done, or was cancelled
                judging.set_exception(error)

    def _take(self) -> Iterator[Candidate]:
        """Yield what is handed in; called in the thread that reads variants."""
        number = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._given or self._is_over)
                if self._is_stopped:
                    raise EvaluationStopped
                if not self._given:
                    return
                candidate, judging = self._given.popleft()
                if not judging.set_running_or_notify_cancel():
                    continue
                self._judged[number] = judging
            number += 1
            yield candidate

    def _tell(self, number: int, variant: EvaluatedVariant) -> None:
        self._judged.pop(number).set_result(variant)
