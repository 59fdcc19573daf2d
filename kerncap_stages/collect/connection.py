"""The conversation with one process of the program: its socket, and the memory shared with it."""

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

    from kerncap_stages.collect.protocol import Rule

# How long reading a message waits before the session gets its turn; the collector looks about as often.
TICK_S = 0.05
# For processes that close what they hold themselves, right before they end.
_ENDING_MS = 2000
_LOOK_EVERY_MS = 20


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

        On HSA a sixteenth of the budget, so that several processes fit in. On CUDA larger slots: two chunks
        for each core, so that none waits for the last of a slot. All are pinned, half a millisecond a MiB.
        """
        if self.mode is Mode.PROFILE:
            return 1, 4 << 20
        if backend == "cuda":
            cores = len(os.sched_getaffinity(0))
            size = max(4 << 20, min(2 * cores * CHUNK_SIZE_BYTES, self.memory_bytes // 8))
            return max(3, min(4, self.memory_bytes // 2 // size)), size
        return max(3, min(8, self.memory_bytes // 16 // (4 << 20))), 4 << 20


def has_memory(process_id: int) -> bool:
    """Whether a process has an address space: one that ends has none left, though it is still listed."""
    try:
        return not Path(f"/proc/{process_id}/statm").read_text().startswith("0 ")
    except OSError:
        return False


class Connection:
    """One process of the program."""

    def __init__(self, sock: socket.socket, emit: Callable[[Any], None]) -> None:
        self._socket = sock
        self._emit = emit
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        self.process_id, user, _ = struct.unpack("3i", credentials)
        if user != os.geteuid():
            raise ProtocolError("a process of another user tried to connect")
        try:
            self._pidfd: int | None = os.pidfd_open(self.process_id)
        except OSError:  # it is over, or its number means nothing here
            self._pidfd = None
        self._hung_up = False
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
        """Hear hello, and answer it."""
        packet = self._socket.recv(protocol.MAX_MESSAGE_BYTES)
        reader = Reader(packet)  # of another version, the rest may be other fields
        if (reader.u32(), reader.u64(), reader.u32()) != (Up.HELLO, protocol.MAGIC, protocol.VERSION):
            self.send(protocol.Refused("another version of the capture protocol"))
            raise ProtocolError("a process speaks another version of the capture protocol")
        hello = protocol.decode_up(packet)
        assert isinstance(hello, protocol.Hello)
        self.backend = hello.backend
        self._shared = SharedMemory(*settings.slots(self.backend))
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
        socket.send_fds(self._socket, [protocol.encode(welcome)], [self.shared.fd])

    def send(self, message: protocol.DownMessage) -> None:
        """Send a message; a process that is gone is noticed by who reads."""
        try:
            self._socket.send(protocol.encode(message))
        except OSError:
            return

    def messages(self) -> Iterator[bytes | None]:
        """Yield messages until the process is gone; None when none came for a moment."""
        self._socket.settimeout(TICK_S)
        while True:
            try:
                message = self._socket.recv(protocol.MAX_MESSAGE_BYTES)
            except TimeoutError:
                yield None
                continue
            except ConnectionResetError:
                # The process ended before it had read all of ours. What it sent is still there: the system
                # tells of the end first, once.
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
        self._hung_up = True
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def lost(self) -> bool:
        """Whether the process ended the conversation and goes on.

        One that ends gives its memory back before its files; a GPU may take seconds to be given back.
        """
        if self._hung_up or self._pidfd is None:
            return False
        process_ends = select.poll()
        process_ends.register(self._pidfd, select.POLLIN)
        for _ in range(_ENDING_MS // _LOOK_EVERY_MS):
            ended = process_ends.poll(_LOOK_EVERY_MS) or not has_memory(self.process_id)
            # Asked last: the library may find out between the end of the conversation and the program's.
            if self._shared is not None and self._shared.lost:
                return True
            if ended:
                return False
        return True

    def close(self) -> None:
        """Give everything back."""
        self._socket.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
        if self._shared is not None:
            self._shared.close()
