"""Runs a program and serves every process of it that loads a capture library.

One thread for each process: they share nothing but the store. What a thread finds goes into one queue that
``Collector.events`` hands to the stage.
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
from kerncap_stages.collect.connection import TICK_S, Connection, Settings
from kerncap_stages.collect.program import ProgramSpec, RunningProgram
from kerncap_stages.collect.protocol import decode_up
from kerncap_stages.errors import KerncapError
from kerncap_stages.machine.native_paths import native_file, native_parts
from kerncap_stages.machine.softgpu import REFUSALS, read_refusals
from kerncap_stages.machine.temporary import TemporaryFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kerncap_stages.collect.protocol import UpMessage

# How long processes that the program left behind may keep us after its end.
_LINGER_S = 2.0
_MOST_REFUSALS = 10  # of what the software GPU did not run
_LONGEST_SOCKET_NAME = 108  # sun_path, with the zero at its end


class Session(Protocol):
    """What is done with one process's messages."""

    def hear(self, message: UpMessage) -> None:
        """Take in a message."""

    def idle(self) -> None:
        """Nothing came for a moment."""

    def close(self) -> None:
        """The process is gone: undo what is not finished."""


class Collector:
    """Starts the program and its capture library, and gathers what the sessions find."""

    def __init__(
        self,
        spec: ProgramSpec,
        settings: Settings,
        session: Callable[[Connection, Callable[[Any], None]], Session],
    ) -> None:
        self.settings = settings
        self._session = session
        self._events: queue.Queue[Any] = queue.Queue()
        self._news = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)  # events are in the queue
        self._place = _folder_for_a_socket()
        self._folder = self._place.path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._threads: list[threading.Thread] = []
        self._connections: list[Connection] = []
        self._lock = threading.Lock()
        self._refusals: list[str] = []
        self.timed_out = False
        self.started = time.monotonic_ns()
        try:
            self._listener.bind(str(self._folder / "socket"))
            self._listener.listen(64)
            self.program = RunningProgram(spec, self._environment(spec))
        except BaseException:
            self._put_away()
            raise

    def _environment(self, spec: ProgramSpec) -> dict[str, str]:
        """Every back end of this installation waits in the program: which one it will use, only it knows."""
        added = {
            "KERNCAP_SOCKET": str(self._folder / "socket"),
            REFUSALS: str(self._folder / "refusals"),
        }
        built = {part.name for part in native_parts() if part.left_out_reason is None}
        if "cuda" in built:
            added |= cuda_injection.environment(spec.merged_environment)
        if "hsa" in built or "cuda" not in built:
            added |= self._hsa_environment(spec)
        return added

    def _hsa_environment(self, spec: ProgramSpec) -> dict[str, str]:
        library = native_file("libkerncap_hsa.so")
        if any(letter in str(library) for letter in " \"'"):
            # ROCr takes the variable for a list of names between blanks.
            link = self._folder / library.name
            link.symlink_to(library)
            library = link
        # A doorbell that HIP rings by itself would pass the intercept queue by.
        common = {"DEBUG_CLR_DIRECT_DOORBELL": "0"}
        if spec.merged_environment.get("KERNCAP_LOAD_BY") == "rocprofiler-register":
            return common | {"ROCPROFILER_REGISTER_LIBRARY": str(library)}
        others = spec.merged_environment.get("HSA_TOOLS_LIB", "").split()
        return common | {
            "HSA_TOOLS_LIB": " ".join([*others, *([] if str(library) in others else [str(library)])]),
            # Builds of ROCr with rocprofiler-register would skip HSA_TOOLS_LIB when another tool registers.
            "HSA_TOOLS_DISABLE_REGISTER": "1",
        }

    def events(self, timeout_s: float | None = None) -> Iterator[Any]:
        """Yield what the sessions emit, until the program and all its processes are done.

        After ``timeout_s`` the program is ended, and ``timed_out`` is set.
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
                    elif self.program.ended():
                        selector.unregister(self.program.pidfd)
                        ended_at = time.monotonic()
                yield from self._pending()
                if ended_at is None:
                    if give_up_at is not None and time.monotonic() > give_up_at:
                        self.timed_out = True
                        self.stop_program()
                    if not self.program.is_held:
                        continue
                    selector.unregister(self.program.pidfd)
                    ended_at = time.monotonic()
                if not any(thread.is_alive() for thread in self._threads):
                    break
                if time.monotonic() - ended_at > _LINGER_S:
                    # What has been sent is still taken in: a large capture outlasts its program.
                    self.hang_up(silent_s=_LINGER_S)
        for thread in self._threads:
            thread.join()
        yield from self._pending()

    def _emit(self, event: object) -> None:
        """Put an event into the queue, from any thread, and wake who hands them out."""
        self._events.put(event)
        os.eventfd_write(self._news, 1)

    def _pending(self) -> Iterator[Any]:
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
            connection.shake_hands(self.settings)
            session = self._session(connection, self._emit)
            try:
                for message in connection.messages():
                    if message is None:
                        session.idle()
                    else:
                        session.hear(decode_up(message))
            finally:
                session.close()
        except Exception as error:  # a thread's error is the stage's to report
            self._emit(error)
        finally:
            with self._lock:
                self._connections.remove(connection)
            connection.close()

    def hang_up(self, silent_s: float = 0.0) -> None:
        """End all conversations that have been silent for so long; the processes go on without us."""
        with self._lock:
            for connection in self._connections:
                if connection.silent_s >= silent_s:
                    connection.hang_up()

    def stop_program(self) -> None:
        """End the program."""
        self.program.stop()

    def close(self) -> None:
        """Leave nothing behind: a program that still runs, because we were interrupted, is ended."""
        if not self.program.ended():
            self.stop_program()
        self.hang_up()  # also where the program is held: nothing comes from it any more
        for thread in self._threads:
            thread.join()
        os.close(self.program.pidfd)
        self._refusals = read_refusals(self._folder / "refusals")
        self._put_away()

    def afterwards(self) -> Iterator[str]:
        """Yield what must not be missed, once it is closed: of a program that stays, of what did not run."""
        yield from self.program.what_stays()
        for text in self._refusals[:_MOST_REFUSALS]:
            yield f"the software GPU did not run all of the program: {text}"
        if (more := len(self._refusals) - _MOST_REFUSALS) > 0:
            yield f"the software GPU did not run all of the program: {more} more lines above say what"

    def _put_away(self) -> None:
        self._listener.close()
        os.close(self._news)
        self._place.remove()


def _folder_for_a_socket() -> TemporaryFolder:
    """Make a folder in the user's place for such; in /tmp where a socket's name would be too long."""
    folder = TemporaryFolder("socket")
    if len(os.fsencode(folder.path / "socket")) < _LONGEST_SOCKET_NAME:
        return folder
    folder.remove()
    return TemporaryFolder("socket", Path("/tmp"))  # noqa: S108 - of mode 0700, under a random name
