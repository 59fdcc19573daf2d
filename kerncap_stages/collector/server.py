"""Runs a program and serves every process of it that loads a capture library.

One thread for each process: they share nothing but the store. What a thread finds goes into one queue that
``Collector.events`` hands to the stage.
"""

from __future__ import annotations

import os
import queue
import selectors
import shutil
import socket
import struct
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kerncap_stages.collector import cuda_injection, protocol
from kerncap_stages.collector.program import ProgramSpec, RunningProgram
from kerncap_stages.collector.protocol import Down, Mode, ProtocolError, Reader, Up
from kerncap_stages.collector.shared_memory import SharedMemory
from kerncap_stages.errors import KerncapError
from kerncap_stages.native_paths import native_file, native_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kerncap_stages.collector.protocol import Rule

# How long processes that the program left behind may keep us after its end.
_LINGER_S = 2.0
_TICK_S = 0.05


@dataclass(frozen=True)
class Settings:
    """How the collector serves the library."""

    mode: Mode
    rules: list[Rule] = field(default_factory=list)
    flags: int = 0
    wait_ms: int = 60_000
    memory_bytes: int = 512 << 20

    def slots(self, backend: str) -> tuple[int, int]:
        """Count and size in bytes of one process's staging slots.

        On HSA a sixteenth of the budget, so that several processes fit in. On CUDA larger slots, as a slot is
        hashed on all cores at once: a chunk for each is the least that keeps them busy.
        """
        if self.mode is Mode.PROFILE:
            return 1, 4 << 20
        if backend == "cuda":
            size = max(4 << 20, min(64 << 20, self.memory_bytes // 8))
            return max(3, min(8, self.memory_bytes // 2 // size)), size
        return max(3, min(8, self.memory_bytes // 16 // (4 << 20))), 4 << 20


class Session(Protocol):
    """What is done with one process's messages."""

    def hear(self, kind: Up, reader: Reader) -> None:
        """Take in a message."""

    def idle(self) -> None:
        """Nothing came for a moment."""

    def close(self) -> None:
        """The process is gone: undo what is not finished."""


class Connection:
    """One process of the program."""

    def __init__(self, sock: socket.socket, emit: Callable[[Any], None]) -> None:
        self._socket = sock
        self._emit = emit
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        self.process_id, user, _ = struct.unpack("3i", credentials)
        if user != os.geteuid():
            raise ProtocolError("a process of another user tried to connect")
        self.backend = ""
        self._is_heard = False  # a message is being taken in
        self._heard_at = time.monotonic()
        self._shared: SharedMemory | None = None  # made to the measure of the back end that says hello

    @property
    def shared(self) -> SharedMemory:
        """The memory shared with the process, once hands were shaken."""
        if self._shared is None:
            raise ProtocolError("a process speaks before it has said hello")
        return self._shared

    def shake_hands(self, settings: Settings) -> None:
        """Hear HELLO, and answer it."""
        reader = Reader(self._socket.recv(protocol.MAX_MESSAGE_BYTES))
        hello = (reader.u32(), reader.u64(), reader.u32())
        if hello != (Up.HELLO, protocol.MAGIC, protocol.VERSION):
            reason = b"another version of the capture protocol"
            self._socket.send(protocol.pack(Down.REFUSED, f"I{len(reason)}s", len(reason), reason))
            raise ProtocolError("a process speaks another version of the capture protocol")
        reader.u32()  # its own idea of its number, which a PID namespace may have changed
        self.backend = reader.text()
        self._shared = SharedMemory(*settings.slots(self.backend))
        answer = protocol.welcome(
            settings.mode,
            self.shared.slot_count,
            self.shared.slot_bytes,
            settings.memory_bytes,
            settings.wait_ms,
            settings.flags,
            settings.rules,
        )
        socket.send_fds(self._socket, [answer], [self.shared.fd])

    def send(self, message: bytes) -> None:
        """Send a message; a process that is gone is noticed by who reads."""
        try:
            self._socket.send(message)
        except OSError:
            return

    def messages(self) -> Iterator[bytes | None]:
        """Yield messages until the process is gone; None when none came for a moment."""
        self._socket.settimeout(_TICK_S)
        while True:
            try:
                message = self._socket.recv(protocol.MAX_MESSAGE_BYTES)
            except TimeoutError:
                yield None
                continue
            except OSError:
                return
            if not message:
                return
            self._is_heard = True
            yield message
            self._heard_at = time.monotonic()
            self._is_heard = False

    @property
    def silent_s(self) -> float:
        """For how long nothing has come; 0 while a message is being taken in, however long that takes."""
        return 0.0 if self._is_heard else time.monotonic() - self._heard_at

    def hang_up(self) -> None:
        """End the conversation from any thread; the one that reads then leaves its loop."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        """Give everything back."""
        self._socket.close()
        if self._shared is not None:
            self._shared.close()


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
        self._folder = Path(tempfile.mkdtemp(prefix="kerncap-"))
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(self._folder / "socket"))
        self._listener.listen(64)
        self._threads: list[threading.Thread] = []
        self._connections: list[Connection] = []
        self._lock = threading.Lock()
        self.timed_out = False
        self.started = time.monotonic_ns()
        self.program = RunningProgram(spec, self._environment(spec))

    def _environment(self, spec: ProgramSpec) -> dict[str, str]:
        """Every back end of this installation waits in the program: which one it will use, only it knows."""
        added = {"KERNCAP_SOCKET": str(self._folder / "socket")}
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
            while True:
                for key, _ in selector.select(_TICK_S):
                    if key.fileobj is self._listener:
                        self._accept()
                    elif self.program.ended():
                        selector.unregister(self.program.pidfd)
                        ended_at = time.monotonic()
                yield from self._pending()
                if ended_at is None:
                    if give_up_at is not None and time.monotonic() > give_up_at:
                        self.timed_out = True
                        self.stop_program()
                    continue
                if not any(thread.is_alive() for thread in self._threads):
                    break
                if time.monotonic() - ended_at > _LINGER_S:
                    # What has been sent is still taken in: a large capture outlasts its program.
                    self.hang_up(silent_s=_LINGER_S)
        for thread in self._threads:
            thread.join()
        yield from self._pending()

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
            connection = Connection(sock, self._events.put)
        except (KerncapError, OSError) as error:
            sock.close()
            self._events.put(error)
            return
        with self._lock:
            self._connections.append(connection)
        try:
            connection.shake_hands(self.settings)
            session = self._session(connection, self._events.put)
            try:
                for message in connection.messages():
                    if message is None:
                        session.idle()
                    else:
                        reader = Reader(message)
                        session.hear(_kind(reader), reader)
            finally:
                session.close()
        except Exception as error:  # a thread's error is the stage's to report
            self._events.put(error)
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
        """Leave nothing behind."""
        self.hang_up()
        for thread in self._threads:
            thread.join()
        self._listener.close()
        os.close(self.program.pidfd)
        shutil.rmtree(self._folder, ignore_errors=True)


def _kind(reader: Reader) -> Up:
    number = reader.u32()
    try:
        return Up(number)
    except ValueError as error:
        raise ProtocolError(f"the capture library sent a message of unknown type {number}") from error
