"""Replayers that serve one replay after the other, and so keep the context, which CUDA is slow to make.

After each replay such a process gives everything back, and tells that it is ready. It ends instead when a
replay did not complete, or when anything is left; the next one is started then. Some variants have processes
of their own: see ``leaves_work``. So has the captured kernel, whose outputs are what a variant must not find.

docs/decisions/0087-a-process-that-is-kept.md
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kerncap_stages.replay.standby import Standby, Standbys, start_waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from kerncap_stages.replay.process import Report

_READY = b"\1"
_READY_S = 10.0
_MAX_REPLAYS = 256  # of one process: what is too little to be noticed adds up no further
# Functions of the device's runtime. What they leave belongs to the context: a heap, a buffer for printing,
# kernels that were launched by a kernel.
_CALLS = re.compile(
    rb"\b(?:malloc|free|vprintf|__assertfail|__cuda_syscall\w*|cudaLaunchDevice\w*|cudaGetParameterBuffer\w*"
    rb"|__cudaCDP\w*|cnp\w+|cudaGraphLaunch\w*)\b"
)
# Parts of these names. Searching for each of them is twenty times faster than searching for the expression.
_PARTS = (
    b"malloc", b"free", b"vprintf", b"__assertfail",
    b"__cuda", b"cudaLaunch", b"cudaGet", b"cnp", b"cudaGraph",
)  # fmt: skip


def leaves_work(code: bytes) -> bool:
    """Whether a cubin or PTX may leave something in its context: it allocates, prints or launches kernels.

    It is told by names alone, so the answer may be yes for no reason.
    """
    return any(part in code for part in _PARTS) and _CALLS.search(code) is not None


@dataclass(frozen=True)
class _Lease(Standby):
    """The process, for one replay."""

    give_back: Callable[[], None] = field(kw_only=True)

    def run(
        self,
        timeout_s: float | None,
        progress: tuple[Path, Report | None] | None = None,
        setup_s: float = 0.0,
        states_s: float = 0.0,
    ) -> int | None:
        try:
            return super().run(timeout_s, progress, setup_s, states_s)
        finally:
            self.give_back()


@dataclass
class _Process:
    """A process that is kept."""

    standby: Standby
    variants: set[int] = field(default_factory=set)  # that it has run
    replays: int = 0
    is_busy: bool = False
    is_ready: bool = True  # its first words may come before it has started

    def wait_until_ready(self) -> bool:
        """Wait until all of the last replay is given back; False if the process ends instead."""
        if not self.is_ready:
            self.standby.input.settimeout(_READY_S)
            with contextlib.suppress(OSError):
                self.is_ready = self.standby.input.recv(1) == _READY
        return self.is_ready

    def send(self, arguments: Sequence[str]) -> bool:
        """Send the words of a replay; False if the process has died."""
        text = b"".join(word.encode(errors="surrogateescape") + b"\0" for word in arguments)
        self.is_ready = False
        try:
            self.standby.input.settimeout(_READY_S)
            self.standby.input.sendall(len(text).to_bytes(4, sys.byteorder) + text)
        except OSError:
            return False
        return True


class KeptReplayers(Standbys):
    """At most one process that is kept, and replayers that wait, for variants that may have none.

    All are given up when the ``with`` block ends.
    """

    def __init__(
        self,
        backend: str,
        device_index: int,
        only_gpu: str | None = None,
        *,
        timed: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """``timed``: for replays that are timed, and no others. variables: of the environment."""
        super().__init__(backend, device_index, only_gpu)
        self._is_kept = self._is_slow_to_start  # back ends that start fast have a process for each variant
        self._is_timed = timed
        self._variables |= variables or {}
        self._process: _Process | None = None
        self._lock = threading.Lock()
        self._variant = 0
        self._is_alone = not self._is_kept
        self.is_doubtful = False
        self.most_replays = _MAX_REPLAYS  # of one process

    def __exit__(self, *error: object) -> None:
        self.end_process()
        super().__exit__(*error)  # type: ignore[arg-type]

    def begin_variant(self, *codes: bytes, alone: bool = False) -> None:
        """Begin another variant. ``codes``: all that is loaded with it. alone: it has processes of its own.

        From then on ``is_doubtful`` tells whether one of its replays was in a process that had run others.
        """
        self._variant += 1
        self.is_doubtful = False
        self._is_alone = alone or not self._is_kept or any(map(leaves_work, codes))

    def start(self, count: int) -> None:
        """Start what the variant's first replays need. Called by the thread in which processes end, too."""
        self._forget_ended()
        if self._is_alone:
            if not self._is_timed:
                super().start(count)
            return
        with self._lock:
            process = self._process
            if process is not None and process.is_busy:
                return
            if process is not None and (
                process.replays >= self.most_replays or not process.wait_until_ready()
            ):
                self.end_process()
            if self._process is None:
                self._process = self._start_process()

    def fits(self, *, timed: bool, has_variant: bool) -> bool:
        """Whether such a replay may be given to ``take``."""
        return not timed if self._is_alone else has_variant and timed == self._is_timed

    def take(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        has_variant: bool = True,
    ) -> Standby | None:
        """Send arguments to the process and return it; None if there is none that has nothing to do."""
        if self._is_alone:
            return super().take(arguments, environment, has_variant=has_variant)
        with self._lock:
            process = self._process
            if process is None or process.is_busy:
                return None
            if not process.wait_until_ready() or not process.send(arguments):
                self.end_process()  # it has died, or hangs
                return None
            process.is_busy = True
        process.replays += 1
        process.variants.add(self._variant)
        self.is_doubtful = self.is_doubtful or len(process.variants) > 1

        def give_back() -> None:
            process.is_busy = False

        standby = process.standby
        return _Lease(standby.process, standby.input, standby.relay, is_kept=True, give_back=give_back)

    def settle(self) -> None:
        """Wait until nothing of replays that have ended is left in memory."""
        with self._lock:
            process = self._process
            if process is not None and not process.is_busy and not process.wait_until_ready():
                self.end_process()
        super().settle()

    def end_process(self) -> None:
        """End the process that is kept, if there is one: the next replay is the first of another one."""
        process, self._process = self._process, None
        if process is not None:
            process.standby.process.kill()
            self._taken.append(process.standby)

    def _start_process(self) -> _Process:
        program, _, index = self._words
        words = [program, "--keep-timed" if self._is_timed else "--keep", index]
        return _Process(Standby(*start_waiting(words, {**os.environ, **self._variables})))

    def _forget_ended(self) -> None:
        """Close what belongs to processes that have ended; there may be thousands in an evaluation."""
        for standby in [each for each in self._taken if each.process.poll() is not None]:
            self._taken.remove(standby)
            standby.close()


class VerdictReplayers(Standbys):
    """Replayers of one verdict: one process may be kept for the variant, and one for the captured kernel.

    Neither process runs the other's code: a variant might find what the captured kernel left. While a kept
    process is busy, replays go to those that wait.
    """

    def __init__(self, backend: str, device_index: int, only_gpu: str | None = None) -> None:
        super().__init__(backend, device_index, only_gpu)
        self._where = (backend, device_index, only_gpu)
        self._kept: dict[bool, KeptReplayers] = {}  # by whether there is a variant

    def __exit__(self, *error: object) -> None:
        self.dismiss()
        for each in self._kept.values():
            each.__exit__(*error)
        super().__exit__(*error)  # type: ignore[arg-type]

    def keep(self, *, has_variant: bool) -> None:
        """Keep a process for the variant, or for the captured kernel, if that saves time."""
        if self._is_slow_to_start:
            kept = self._kept[has_variant] = KeptReplayers(*self._where)
            kept.begin_variant()
            kept.start(1)

    def tell_code(self, read: Callable[[], bytes], *, has_variant: bool) -> None:
        """Look at the code that the variant's replays load, or the captured kernel's; ``read`` returns it.

        If it may leave something in its context, each of these replays has a process of its own. Call this
        before the first of them.
        """
        if has_variant in self._kept and leaves_work(read()):
            self.share_none(has_variant=has_variant)

    def share_none(self, *, has_variant: bool) -> None:
        """Give each replay of the variant, or of the captured kernel, a process of its own."""
        if (kept := self._kept.get(has_variant)) is not None:
            kept.most_replays = 1

    def take(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        has_variant: bool = False,
    ) -> Standby | None:
        """Send arguments to the process that is kept for this code, or to one that waits."""
        kept = self._kept.get(has_variant)
        if kept is not None:
            kept.start(1)  # another one, if the last one has ended
            if (standby := kept.take(arguments)) is not None:
                return standby
        return super().take(arguments, environment, has_variant=has_variant)

    def dismiss(self) -> None:
        """End the processes that are kept, without waiting for them: a driver takes long to release them."""
        for each in self._kept.values():
            each.end_process()

    def settle(self) -> None:
        """Wait until nothing of replays that have ended is left in memory."""
        for each in self._kept.values():
            each.settle()
        super().settle()
