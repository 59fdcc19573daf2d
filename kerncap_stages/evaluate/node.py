"""What runs on a node for a coordinator elsewhere: it keeps the capture there, and a worker process.

The node needs this package in the same version, and nothing else of the coordinator's machine: the capture
and the variants come through the channel, once a node and once a task. Verdicts go back with all that they
refer to. ``python -m kerncap_stages.evaluate.node`` answers on its standard streams.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import select
import signal
import socket
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerncap_stages import __version__
from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactError, DeviceError, KerncapError
from kerncap_stages.evaluate.channel import read_message, write_message
from kerncap_stages.evaluate.local import LocalWorkforce, WorkSettings
from kerncap_stages.evaluate.node_folder import NodeFolder
from kerncap_stages.evaluate.scratch import ScratchMaker
from kerncap_stages.evaluate.tasks import Result, Task, make_judge_settings
from kerncap_stages.machine.identity import identify_machine
from kerncap_stages.machine.softgpu import SoftGpu
from kerncap_stages.machine.temporary import TemporaryFolder
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.store import Store
from kerncap_stages.store.closure import Closure
from kerncap_stages.validate.replays.speculation import Neighbours

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kerncap_stages.evaluate.channel import Message
    from kerncap_stages.evaluate.contract import Ready
    from kerncap_stages.evaluate.workers import WorkerProcess

_GRACE_S = 1.0  # one that has nothing to do ends by itself
# A scheduler sets them for each worker; the GPUs of a node count as one machine's.
_CHOSEN = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


class NodeBrokenError(Exception):
    """Nothing can be judged on this node. The text says why."""


class Node:
    """Answers a coordinator: ``open``, ``add`` until the capture is there, ``start``, then ``judge``."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._files: NodeFolder | None = None
        self._workforce: LocalWorkforce | None = None
        self._worker: WorkerProcess | None = None
        self._told: queue.SimpleQueue[Ready | Result | None] = queue.SimpleQueue()
        self._roots: tuple[Digest, ...] = ()
        self._settings: WorkSettings | None = None
        self._architecture = ""
        self._base = Closure()
        self._sent: set[Digest] = set()
        self._codes = Path()
        self._has_verdict = False

    def answer(self, members: dict[str, Any], blobs: Sequence[bytes]) -> Message:
        """Answer one call. A failure of this node is an answer, too: ``broken`` says why."""
        members = dict(members)
        calls: dict[str, Callable[..., Message]] = {
            "open": self._open, "add": self._add, "start": self._start, "judge": self._judge,
        }  # fmt: skip
        try:
            return calls[members.pop("call")](blobs, **members)
        except (NodeBrokenError, KerncapError, OSError) as error:
            return {"broken": f"{socket.gethostname()}: {error}"}, []

    def close(self) -> None:
        """End the worker and remove what is here."""
        if self._worker is not None:
            self._worker.end()
            self._worker = None
        self._stack.close()

    def _open(
        self,
        _blobs: Sequence[bytes],
        version: str,
        key: str,
        roots: list[str],
        architecture: str,
        settings: dict[str, Any],
    ) -> Message:
        """Take what all tasks have in common; tells whether the capture is needed."""
        if version != __version__:
            raise NodeBrokenError(f"has kerncap-stages {__version__}, and the coordinator has {version}")
        self._roots = tuple(map(Digest, roots))
        judge = make_judge_settings(settings.pop("judge"))
        self._settings = WorkSettings(judge, **settings)
        self._architecture = architecture
        self._files = NodeFolder(key)
        self._stack.callback(self._files.leave)
        return {"lacks_capture": not self._files.prepare()}, []

    def _add(self, blobs: Sequence[bytes]) -> Message:
        """Take the next piece of the captures."""
        assert self._files is not None
        for blob in blobs:
            self._files.add(blob)
        return {}, []

    def _start(self, _blobs: Sequence[bytes]) -> Message:
        """Start the worker; tells the machine."""
        assert self._files is not None
        assert self._settings is not None
        self._files.finish()
        store = Store.open(self._files.store, create=False)
        captures = []
        for digest in self._roots:
            if store.folder.native.has(digest) and _is_capture(store, digest):
                captures.append(load_as(store, digest, Capture))
        on_cores = self._settings.on_cores
        if captures[0].device.software or on_cores:
            for name in _CHOSEN:  # they are of a scheduler: Ray hides all GPUs from those that asked for none
                os.environ.pop(name, None)
        if on_cores:  # this node may have a GPU, which others time on
            _use_software_gpu(self._architecture)
        machine = identify_machine(self._architecture, ignored=_CHOSEN)
        self._base = store.walk(self._roots)
        scratches = ScratchMaker(store, self._roots, captures)
        self._codes = self._stack.enter_context(TemporaryFolder("variants"))
        self._workforce = LocalWorkforce(
            store,
            captures,
            scratches,
            self._settings,
            1,
            machine,
            self._codes,
            Neighbours(on_machine=True),  # perhaps: a scheduler may have put other nodes there
        )
        self._start_worker()
        return {"machine": machine, "host": socket.gethostname()}, []

    def _judge(self, blobs: Sequence[bytes], task: dict[str, Any]) -> Message:
        """Judge a variant. The answer has the result, and the objects of its verdict that were not sent."""
        asked = Task(**task)
        code = self._codes / hashlib.sha256(blobs[0]).hexdigest()
        code.write_bytes(blobs[0])
        result = self._ask(replace(asked, code=str(code)))
        code.unlink()
        told = tuple(each.replace(str(code), str(asked.code)) for each in result.reasons)
        result = replace(result, reasons=told, again=False)
        objects: dict[str, bytes] = {}
        if result.verdict is not None:
            objects = self._take_objects(Digest(result.verdict))
        if self._worker is not None and self._worker.is_ending:
            self._end_worker()
        return {"result": asdict(result), "objects": list(objects)}, list(objects.values())

    def _ask(self, task: Task) -> Result:
        if self._worker is None:
            self._start_worker()
        assert self._worker is not None
        self._worker.give(task)
        told = self._told.get()
        if isinstance(told, Result):
            self._worker.task = None
            self._worker.is_ending = told.again
            self._has_verdict |= told.passed is not None
            if told.passed is None and not told.is_final:
                self._check()
            return told
        why = self._worker.explain_death()
        self._end_worker()
        self._check()
        return Result(task.number, reasons=(why,), is_final=False)

    def _check(self) -> None:
        """After a failure and before any verdict: is it this node? Raises DeviceError or ArtifactError."""
        if not self._has_verdict:
            assert self._workforce is not None
            self._workforce.check(0)

    def _take_objects(self, verdict: Digest) -> dict[str, bytes]:
        assert self._worker is not None
        store = self._worker.source.store
        known = Closure(dict(self._base.kinds), set(self._base.followed))
        found = store.walk([verdict], known, kept=False)
        for message in (found.missing | found.unreadable).values():
            raise ArtifactError(f"the verdict is incomplete: {message}")
        new = [each for each in found.kinds if each not in self._base.kinds and each not in self._sent]
        self._sent.update(new)
        return {each: store.folder.find_object_path(each).read_bytes() for each in new}

    def _start_worker(self) -> None:
        assert self._workforce is not None
        told: queue.SimpleQueue[Ready | Result | None] = queue.SimpleQueue()
        self._told = told
        self._worker = self._workforce.start(0, lambda _worker, news: told.put(news))
        if told.get() is None:
            why = self._worker.explain_death()
            self._end_worker()
            raise DeviceError(why)

    def _end_worker(self) -> None:
        if self._worker is not None:
            self._worker.end()
            self._worker = None


def _use_software_gpu(target: str) -> None:
    """Let all that this process starts see the software GPU alone. Raises DeviceError where there is none."""
    environment = SoftGpu(target=target).make_environment(os.environ)
    os.environ.clear()
    os.environ.update(environment)


def _is_capture(store: Store, digest: Digest) -> bool:
    return any(entry.digest == digest for entry in store.list_artifacts("capture"))


def _end_with_input() -> None:
    """End this process when its input has ended, also while it judges: nobody waits for the answer."""
    poll = select.poll()
    poll.register(0, select.POLLHUP | select.POLLRDHUP)
    poll.poll()
    time.sleep(_GRACE_S)
    os.kill(os.getpid(), signal.SIGTERM)


def _end(number: int, _frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # a second one must not interrupt the cleaning up
    sys.exit(128 + number)


def main() -> int:
    """Answer on the standard streams."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the coordinator
    signal.signal(signal.SIGTERM, _end)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not print into the answers
    node = Node()
    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        try:
            while (message := read_message(sys.stdin.buffer)) is not None:
                write_message(answers, *node.answer(*message))
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except BrokenPipeError:
        return 1
    finally:
        node.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
