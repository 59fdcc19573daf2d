"""Runs a program and serves each of its processes that loads a capture library.

Each process has a thread; the threads share only the store. A thread puts its events into one queue, which
``Collector.read_events`` returns to the stage.
"""

from __future__ import annotations

import os
import queue
import selectors
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kerncap_stages.collect import cuda_injection
from kerncap_stages.collect.connection import TICK_S, Connection, LibrarySettings
from kerncap_stages.collect.left_behind import SOCKET, LeftBehind, find_left_behind, name_left_behind
from kerncap_stages.collect.program import ProgramSpec, RunningProgram
from kerncap_stages.collect.protocol import Mode, WelcomeFlag, decode_up
from kerncap_stages.collect.rtc_records import RtcRecords
from kerncap_stages.collect.triton_records import TritonRecords
from kerncap_stages.errors import KerncapError
from kerncap_stages.machine.native_paths import find_native_file, list_native_parts
from kerncap_stages.machine.softgpu import REFUSALS, read_refusals
from kerncap_stages.machine.temporary import TemporaryFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kerncap_stages.collect.protocol import UpMessage
    from kerncap_stages.collect.triton_configurations import CodeKey
    from kerncap_stages.manifests.capture import Selection

# How long processes that outlive the program may be silent before they are disconnected. If none has used a
# GPU yet, this is also how long one may take to begin.
_LINGER_S = 2.0
_MAX_REFUSALS = 10  # messages about dispatches that the software GPU refused to run
_MAX_SOCKET_NAME_BYTES = 108  # size of sun_path, which ends with a zero byte


class Session(Protocol):
    """Handles the messages of one process."""

    def handle(self, message: UpMessage) -> None:
        """Handle a message."""

    def do_pending_work(self) -> None:
        """Do pending work: no message arrived for TICK_S seconds."""

    def close(self) -> None:
        """Undo unfinished work after the process closed its connection."""


class Collector:
    """Starts the program with the capture library, and gathers the events of the sessions."""

    def __init__(
        self,
        spec: ProgramSpec,
        settings: LibrarySettings,
        session: Callable[[Connection, Callable[[Any], None]], Session],
        selections: Sequence[Selection] = (),
    ) -> None:
        self.settings = settings
        self._selections = selections
        self._session = session
        self._events: queue.Queue[Any] = queue.Queue()
        self._news = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)  # readable when the queue has events
        self._temporary_folder = _make_socket_folder()
        self._folder = self._temporary_folder.path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._threads: list[threading.Thread] = []
        self._connections: list[Connection] = []
        self._lock = threading.Lock()
        self._refusals: list[str] = []
        self._unrecorded: list[str] = []
        self._unanswered: list[int] = []
        self.triton_configurations: dict[CodeKey, dict[str, Any]] = {}  # set by ``close``
        self._is_stopped = False
        self.left_behind: list[LeftBehind] = []  # processes that went on unwatched; set by ``read_events``
        self.timed_out = False
        self.started = time.monotonic_ns()
        try:
            self.triton = TritonRecords(self._folder / "triton")
            self.rtc = RtcRecords(self._folder / "rtc")
            self._listener.bind(str(self._folder / "socket"))
            self._listener.listen(64)
            self.program = RunningProgram(spec, self._make_environment(spec), self._choose_preload(spec))
        except BaseException:
            self._remove_files()
            raise

    def _make_environment(self, spec: ProgramSpec) -> dict[str, str]:
        """Return the variables that load the capture library of each installed back end.

        Only the program knows which back end it will use. Nothing is added for CUDA where nothing is wanted
        there: another tool may be injected then.
        """
        added = {
            SOCKET: str(self._folder / "socket"),
            REFUSALS: str(self._folder / "refusals"),
        }
        built = {part.name for part in list_native_parts() if part.left_out_reason is None}
        if "cuda" in built and self.settings.with_cuda:
            added |= cuda_injection.make_environment(spec.merged_environment)
        if "hsa" in built or "cuda" not in built:
            added |= self._make_hsa_environment(spec)
        if self.settings.mode is Mode.REPLACE:
            return added  # nothing is recorded
        record = self.settings.mode is Mode.CAPTURE
        if record:
            added |= self.rtc.make_environment(spec.merged_environment)
        return added | self.triton.make_environment(
            spec.merged_environment,
            [find_native_file(f"libkerncap_{name}.so") for name in ("hsa", "cuda") if name in built],
            selections=self._selections,
            whole=record,
            by_configuration=bool(self.settings.flags & WelcomeFlag.CHECKSUMS),
            tell_trials=not self.settings.with_trials,
        )

    def _choose_preload(self, spec: ProgramSpec) -> Path | None:
        """Return the library that records what is compiled at run time, if it is wanted."""
        if self.settings.mode is not Mode.CAPTURE or not self.rtc.is_wanted(spec.merged_environment):
            return None
        return self._make_plain(find_native_file("libkerncap_rtc.so"))

    def _make_plain(self, library: Path) -> Path:
        """Return a link to a library if variables with lists of libraries cannot hold its own path."""
        if not any(letter in str(library) for letter in " \"':"):
            return library
        link = self._folder / library.name
        link.symlink_to(library)
        return link

    def _make_hsa_environment(self, spec: ProgramSpec) -> dict[str, str]:
        library = self._make_plain(find_native_file("libkerncap_hsa.so"))
        # HIP's direct doorbell bypasses the intercept queue.
        common = {"DEBUG_CLR_DIRECT_DOORBELL": "0"}
        if spec.merged_environment.get("KERNCAP_LOAD_BY") == "rocprofiler-register":
            return common | {"ROCPROFILER_REGISTER_LIBRARY": str(library)}
        others = spec.merged_environment.get("HSA_TOOLS_LIB", "").split()
        return common | {
            "HSA_TOOLS_LIB": " ".join([*others, *([] if str(library) in others else [str(library)])]),
            # Builds of ROCr with rocprofiler-register ignore HSA_TOOLS_LIB if another tool registers.
            "HSA_TOOLS_DISABLE_REGISTER": "1",
        }

    def read_events(self, timeout_s: float | None = None) -> Iterator[Any]:
        """Yield the events of the sessions until the program and all its processes have ended.

        After ``timeout_s``, the program is stopped and ``timed_out`` is set. Raises the error of a session.
        """
        ended_at: float | None = None
        give_up_at = None if timeout_s is None else time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self.program.pidfd, selectors.EVENT_READ)
            selector.register(self._news, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select(TICK_S):
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.fileobj == self._news:
                        os.eventfd_read(self._news)
                    elif self.program.has_ended():
                        selector.unregister(self.program.pidfd)
                        ended_at = time.monotonic()
                yield from self._take_pending()
                if ended_at is None:
                    if give_up_at is not None and time.monotonic() > give_up_at:
                        self.timed_out = True
                        self.stop_program()
                    if not self.program.is_held:
                        continue
                    selector.unregister(self.program.pidfd)
                    ended_at = time.monotonic()
                is_patient = time.monotonic() - ended_at <= _LINGER_S
                if not any(thread.is_alive() for thread in self._threads):
                    if self._threads or not self._find_left_behind() or not is_patient:
                        break
                elif not is_patient:
                    # Messages that were sent are still handled: a large capture takes longer than its
                    # program.
                    self.hang_up(silent_s=_LINGER_S)
        for thread in self._threads:
            thread.join()
        if self._threads:
            self._find_left_behind()
        yield from self._take_pending()

    def _find_left_behind(self) -> bool:
        """Find the processes that the program left when it ended by itself; whether there are any."""
        self.left_behind = [] if self._is_stopped else find_left_behind(self._folder / "socket")
        return bool(self.left_behind)

    def _emit(self, event: object) -> None:
        """Put an event into the queue, from any thread, and wake ``read_events``."""
        self._events.put(event)
        os.eventfd_write(self._news, 1)

    def _take_pending(self) -> Iterator[Any]:
        while True:
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                return
            if isinstance(event, BaseException):
                raise event
            yield event

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            connection = Connection(sock, self._emit)
        except (KerncapError, OSError) as error:
            sock.close()
            self._emit(error)
            return
        with self._lock:
            self._connections.append(connection)
        try:
            if not connection.shake_hands(self.settings):
                self._unanswered.append(connection.process_id)
                return
            session = self._session(connection, self._emit)
            try:
                for message in connection.read_messages():
                    if message is None:
                        session.do_pending_work()
                    else:
                        session.handle(decode_up(message))
            finally:
                session.close()
        except Exception as error:  # the stage reports the errors of threads
            self._emit(error)
        finally:
            with self._lock:
                self._connections.remove(connection)
            connection.close()

    def hang_up(self, silent_s: float = 0.0) -> None:
        """Close all connections that were silent for ``silent_s`` seconds; their processes go on."""
        with self._lock:
            for connection in self._connections:
                if connection.silent_s >= silent_s:
                    connection.hang_up()

    def stop_program(self) -> None:
        """Stop the program."""
        self._is_stopped = True
        self.program.stop()

    def close(self) -> None:
        """Stop the program if it still runs after an interrupt, join all threads and remove all files."""
        if not self.program.has_ended():
            self.stop_program()
        self.hang_up()  # a program that the driver keeps sends nothing more either
        for thread in self._threads:
            thread.join()
        os.close(self.program.pidfd)
        self._refusals = read_refusals(self._folder / "refusals")
        self._unrecorded = [f"no record of a Triton kernel: {text}" for text in self.triton.read_errors()]
        self._unrecorded += [
            f"no record of what was compiled at run time: {text}" for text in self.rtc.read_errors()
        ]
        self.triton_configurations = self.triton.read_configurations()
        self._remove_files()

    def list_final_warnings(self) -> Iterator[str]:
        """Yield warnings, after ``close``: processes that go on, dispatches that did not run."""
        yield from self.program.explain_held()
        if self.left_behind and self._threads:
            yield f"still running, and no longer watched: {name_left_behind(self.left_behind)}"
        for process in self._unanswered[:_MAX_REFUSALS]:
            yield f"process {process} was not watched: it no longer waited when this stage answered"
        yield from self._unrecorded[:_MAX_REFUSALS]
        for text in self._refusals[:_MAX_REFUSALS]:
            yield f"the software GPU did not run all of the program: {text}"
        if (more := len(self._refusals) - _MAX_REFUSALS) > 0:
            yield f"the software GPU did not run all of the program: see {more} more messages above"

    def _remove_files(self) -> None:
        self._listener.close()
        os.close(self._news)
        self._temporary_folder.remove()


def _make_socket_folder() -> TemporaryFolder:
    """Make a temporary folder in the usual place; in /tmp if the socket's name would be too long there."""
    folder = TemporaryFolder("socket")
    if len(os.fsencode(folder.path / "socket")) < _MAX_SOCKET_NAME_BYTES:
        return folder
    folder.remove()
    return TemporaryFolder("socket", Path("/tmp"))  # noqa: S108 - of mode 0700, under a random name
