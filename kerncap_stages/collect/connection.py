"""The connection to one process of the program: its socket, and the memory shared with it."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerncap_stages._native import CHUNK_SIZE_BYTES
from kerncap_stages.collect import protocol
from kerncap_stages.collect.protocol import Mode, Up
from kerncap_stages.collect.shared_memory import SharedMemory
from kerncap_stages.collect.wire import ProtocolError, Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kerncap_stages.collect.protocol import ProgramVariable, Replacement, Rule

# How long a read waits for a message before the session may do other work. The collector polls as often.
TICK_S = 0.05
# Some processes close all their descriptors right before they end: how long ``is_lost`` waits for the end.
_ENDING_MS = 2000
_LOOK_EVERY_MS = 20


@dataclass(frozen=True)
class LibrarySettings:
    """What the collector asks of every capture library."""

    mode: Mode
    rules: list[Rule] = field(default_factory=list)
    replacements: list[Replacement | ProgramVariable] = field(default_factory=list)
    flags: int = 0
    wait_ms: int = 60_000
    memory_bytes: int = 512 << 20
    with_trials: bool = False  # treat an autotuner's trials as any dispatch
    with_cuda: bool = True  # ask the CUDA driver to load the library, where it is installed

    def choose_slots(self, backend: str) -> tuple[int, int]:
        """Choose how many staging slots a process gets, and their size in bytes.

        On HSA, a process gets a sixteenth of the memory budget, so that several processes fit into it. On
        CUDA, a slot has a chunk for each core. Slots are pinned, which takes half a millisecond a MiB.
        """
        if self.mode is not Mode.CAPTURE:
            return 1, 4 << 20
        if backend == "cuda":
            cores = len(os.sched_getaffinity(0))
            size = max(4 << 20, min(cores * CHUNK_SIZE_BYTES, self.memory_bytes // 16))
            return max(3, min(8, self.memory_bytes // 2 // size)), size
        return max(3, min(8, self.memory_bytes // 16 // (4 << 20))), 4 << 20


def has_memory(process_id: int) -> bool:
    """Whether a process has an address space. An ending process has none, though it is still listed."""
    try:
        return not Path(f"/proc/{process_id}/statm").read_text().startswith("0 ")
    except OSError:
        return False


class Connection:
    """The connection to one process of the program."""

    def __init__(self, sock: socket.socket, emit: Callable[[Any], None]) -> None:
        self._socket = sock
        self._emit = emit
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        self.process_id, user, _ = struct.unpack("3i", credentials)
        if user != os.geteuid():
            raise ProtocolError("a process of another user tried to connect")
        try:
            self._pidfd: int | None = os.pidfd_open(self.process_id)
        except OSError:  # the process has ended, or is in another PID namespace
            self._pidfd = None
        self._hung_up = False
        self.backend = ""
        self._ends_when_lost = False
        self._is_handling = False  # a message is being handled
        self._handled_at = time.monotonic()
        self._shared: SharedMemory | None = None  # its size depends on the back end that HELLO names

    @property
    def shared(self) -> SharedMemory:
        """The memory shared with the process. Raises ProtocolError before the handshake."""
        if self._shared is None:
            raise ProtocolError("a process sent a message before HELLO")
        return self._shared

    def shake_hands(self, settings: LibrarySettings) -> bool:
        """Read HELLO and answer it. False: the process has ended, or has waited too long for the answer.

        Raises ProtocolError if the process uses another protocol version.
        """
        try:
            packet = self._socket.recv(protocol.MAX_MESSAGE_BYTES)
        except ConnectionResetError:
            return False
        if not packet:
            return False
        reader = Reader(packet)  # another version may have other fields after these three
        if (reader.u32(), reader.u64(), reader.u32()) != (Up.HELLO, protocol.MAGIC, protocol.VERSION):
            self.send(protocol.Refused("another version of the capture protocol"))
            raise ProtocolError("a process uses another version of the capture protocol")
        hello = protocol.decode_up(packet)
        assert isinstance(hello, protocol.Hello)
        self.backend = hello.backend
        # A capture's bytes come by messages, the times of a profile through the shared memory alone.
        self._ends_when_lost = settings.mode is Mode.CAPTURE
        self._shared = SharedMemory(*settings.choose_slots(self.backend))
        welcome = protocol.Welcome(
            magic=protocol.MAGIC,
            version=protocol.VERSION,
            mode=settings.mode,
            slot_count=self.shared.slot_count,
            slot_bytes=self.shared.slot_bytes,
            wait_ms=settings.wait_ms,
            flags=settings.flags,
            rules=tuple(settings.rules),
        )
        try:
            socket.send_fds(self._socket, [protocol.encode(welcome)], [self.shared.fd])
        except OSError:
            return False
        for replacement in settings.replacements:
            self.send(replacement)
        return True

    def send(self, message: protocol.DownMessage) -> None:
        """Send a message. Ignores errors: the reading thread notices that the process has ended."""
        try:
            self._socket.send(protocol.encode(message))
        except OSError:
            return

    def read_messages(self) -> Iterator[bytes | None]:
        """Yield messages until the process closes its socket; None if none arrived for TICK_S seconds.

        While the capture library's thread waits for a message, Linux keeps a socket open that the program has
        closed. So a capture also ends once the library found that.
        """
        self._socket.settimeout(TICK_S)
        was_lost = False  # at the last look: what was sent before it has been yielded by the next one
        while True:
            try:
                message = self._socket.recv(protocol.MAX_MESSAGE_BYTES)
            except TimeoutError:
                if was_lost:
                    return
                was_lost = self._ends_when_lost and self.shared.lost
                yield None
                continue
            except ConnectionResetError:
                # The process ended before it had read all messages to it. Linux reports this error once; the
                # next reads return the messages that the process had sent.
                continue
            except OSError:
                return
            if not message:
                return
            self._is_handling = True
            yield message
            self._handled_at = time.monotonic()
            self._is_handling = False

    @property
    def silent_s(self) -> float:
        """Time since the last message was handled; 0 while one is being handled."""
        return 0.0 if self._is_handling else time.monotonic() - self._handled_at

    def hang_up(self) -> None:
        """Shut the socket down, from any thread. The reading thread then leaves its loop."""
        self._hung_up = True
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def is_lost(self) -> bool:
        """Whether the process closed the connection and goes on.

        An ending process releases its memory before its files, and a GPU may take seconds to be released:
        the process counts as ended as soon as it has no memory.
        """
        if self._hung_up or self._pidfd is None:
            return False
        process_ends = select.poll()
        process_ends.register(self._pidfd, select.POLLIN)
        for _ in range(_ENDING_MS // _LOOK_EVERY_MS):
            ended = process_ends.poll(_LOOK_EVERY_MS) or not has_memory(self.process_id)
            # Read after the end was checked: the capture library may set it shortly before the process ends.
            if self._shared is not None and self._shared.lost:
                return True
            if ended:
                return False
        return True

    def close(self) -> None:
        """Close the socket and release the shared memory."""
        self._socket.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
        if self._shared is not None:
            self._shared.close()
