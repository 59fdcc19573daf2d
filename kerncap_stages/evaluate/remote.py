"""Workers on other machines: each is a node at the end of a channel, and a thread here that talks to it."""

from __future__ import annotations

import os
import queue
import secrets
import threading
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages import __version__
from kerncap_stages.evaluate.channel import NodeLostError
from kerncap_stages.evaluate.contract import Ready, Role
from kerncap_stages.evaluate.tasks import make_result
from kerncap_stages.store.archive import export
from kerncap_stages.store.artifacts import make_list_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kerncap_stages.digest import Digest
    from kerncap_stages.evaluate.channel import Channel, Members, Message, Place
    from kerncap_stages.evaluate.local import WorkSettings
    from kerncap_stages.evaluate.tasks import Result, Task
    from kerncap_stages.store import Store

_PIECE_BYTES = 16 << 20
_MAX_STARTS = 6  # more than the nodes that one variant may take down, before it gets no verdict


class Arrivals:
    """Verdicts that came from nodes, as objects of a store, until they are in the user's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[tuple[str, bytes], ...]] = {}

    def add(self, verdict: str, objects: Sequence[tuple[str, bytes]]) -> None:
        """Take the objects that came with a verdict, as they are in files of a store."""
        with self._lock:
            self._objects[verdict] = (*self._objects.get(verdict, ()), *objects)

    def publish(
        self, made: Mapping[Digest, Sequence[Digest]], store: Store, choose_time_ns: Callable[[int], int]
    ) -> None:
        """Bring verdicts into the user's store, and list them. Raises DigestMismatch for a damaged object."""
        with self._lock:
            objects = [each for verdict in made for each in self._objects.pop(verdict, ())]
        first_ns = choose_time_ns(len(made))
        frames, content = [], bytearray()
        for digest, frame in objects:
            frames.append((len(content), len(frame), digest))
            content += frame
        fd = os.memfd_create("kerncap-arrivals")
        try:
            with open(fd, "wb", closefd=False) as file:
                file.write(content)
            with store.begin_transaction() as transaction:
                transaction.adopt(fd, frames)
                transaction.publish_listed(
                    [
                        (digest, make_list_entry("validation", parents, first_ns + number))
                        for number, (digest, parents) in enumerate(made.items())
                    ]
                )
        finally:
            os.close(fd)


class RemoteWorkforce:
    """Starts workers on nodes of a place."""

    max_starts = _MAX_STARTS

    def __init__(
        self,
        place: Place,
        store: Store,
        roots: Sequence[Digest],
        architecture: str,
        settings: WorkSettings,
        count: int,
        folder: Path,
    ) -> None:
        """``roots``: the artifacts that verdicts are made from. folder: for an archive of them."""
        self.count = count
        self.roles = (Role.BOTH,) * count
        self.builds = len(os.sched_getaffinity(0))
        self.machine: str | None = None
        self._place = place
        self._store = store
        self._roots = roots
        self._archive = folder / "captures.tar"
        self._lock = threading.Lock()
        self._arrivals = Arrivals()
        self._opening = {
            "version": __version__,
            "key": secrets.token_hex(16),
            "roots": list(roots),
            "architecture": architecture,
            "settings": asdict(settings),
        }

    def start(self, place: int, tell: Callable[[RemoteWorker, Ready | Result | None], None]) -> RemoteWorker:
        """Ask for a node."""
        return RemoteWorker(place, self._place, self._opening, self._read_pieces, self._arrivals, tell)

    def check(self, case: int) -> None:
        """Do nothing: each node looks by itself."""

    def end(self) -> None:
        """Leave the place."""
        self._place.leave()

    def _read_pieces(self) -> Iterator[bytes]:
        """Yield the captures, as an archive."""
        with self._lock:
            if not self._archive.exists():
                export(self._store, self._roots, self._archive)
        with self._archive.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece


class RemoteWorker:
    """A worker on a node. It has at most one task at a time."""

    is_lost = True  # a worker process that dies there is an answer of its node

    def __init__(
        self,
        place: int,
        where: Place,
        opening: Members,
        read_pieces: Callable[[], Iterator[bytes]],
        source: Arrivals,
        tell: Callable[[RemoteWorker, Ready | Result | None], None],
    ) -> None:
        """Ask for a node. ``opening``: what it needs to know. read_pieces: of the captures.

        tell: called in a thread when it is ready, with each result, and at last with None.
        """
        self.place = place
        self.source = source
        self.task: Task | None = None
        self.machine: str | None = None
        self.is_ending = False
        self._where = where
        self._opening = opening
        self._read_pieces = read_pieces
        self._tell = tell
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._channel: Channel | None = None
        self._is_ended = False
        self._why = "it was ended"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def give(self, task: Task) -> None:
        """Give it a task."""
        self.task = task
        self._tasks.put(task)

    def end(self) -> None:
        """End it: it has no task, or is killed."""
        self.is_ending = True
        self._tasks.put(None)
        with self._lock:
            self._is_ended = True
            channel = self._channel
        if channel is not None and (self.task is not None or self.machine is None):
            channel.kill()
        self._thread.join()

    def explain_death(self) -> str:
        """Explain why it ended."""
        return self._why

    def _run(self) -> None:
        try:
            channel = self._where.open(self.place)
            with self._lock:
                self._channel = channel
                is_ended = self._is_ended
            try:
                if not is_ended:
                    self._serve(channel)
            finally:
                channel.close()
        except NodeLostError as error:
            self._why = f"a node was lost: {error}"
        except Exception as error:  # whatever it is, the coordinator has to know
            self._why = f"a node was lost: {type(error).__name__}: {error}"
        self._tell(self, None)

    def _serve(self, channel: Channel) -> None:
        opened, _ = _call(channel, "open", self._opening)
        if opened["lacks_capture"]:
            for piece in self._read_pieces():
                _call(channel, "add", {}, [piece])
        started, _ = _call(channel, "start", {})
        self._tell(self, Ready(str(started["machine"])))
        while (task := self._tasks.get()) is not None:
            code = Path(str(task.code)).read_bytes()
            answer, blobs = _call(channel, "judge", {"task": asdict(task)}, [code])
            result = make_result(answer["result"])
            if result.verdict is not None:
                self.source.add(result.verdict, list(zip(answer["objects"], blobs, strict=True)))
            self._tell(self, result)


def _call(channel: Channel, name: str, members: Members, blobs: Sequence[bytes] = ()) -> Message:
    answer, found = channel.call(name, members, blobs)
    if "broken" in answer:
        raise NodeLostError(answer["broken"])
    return answer, found
