"""A channel to a node: calls with JSON members and bytes, answered one after the other.

On the node a process answers on its standard streams (``node.Node``). ``StreamChannel`` leads to it, from
here through srun, or from one of Ray's actors.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import subprocess
import sys
import tempfile
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Members = Mapping[str, Any]
    Message = tuple[dict[str, Any], list[bytes]]

NODE_COMMAND = (sys.executable, "-P", "-m", "kerncap_stages.evaluate.node")

_HEADER = struct.Struct("<4sI")
_MAGIC = b"kcn1"
_END = b"\n"
_MAX_HEAD_BYTES = 64 << 20
_MAX_SAID = 2000
_END_S = 10.0


class NodeLostError(Exception):
    """The node is gone, or what leads to it: no fault of a task. The text says what is known."""


class Channel(Protocol):
    """Leads to one node process."""

    def call(self, name: str, members: Members, blobs: Sequence[bytes] = ()) -> Message:
        """Call a method of ``Node`` and return its answer. It may first wait for the node to be there.

        Raises NodeLostError. Calls come from one thread.
        """

    def kill(self) -> None:
        """End the node's process, whatever it does, from any thread. A call in another one raises."""

    def close(self) -> None:
        """Let the node's process end, and forget it. After the last call, from the same thread."""


class Place(Protocol):
    """Where nodes run."""

    def count_free(self) -> int:
        """Return how many workers fit. Raises UsageError if nobody can say."""

    def open(self, number: int) -> Channel:
        """Ask for a node process; ``number``: of the worker. Does not wait for it. Raises NodeLostError."""

    def leave(self) -> None:
        """Leave, when all channels are closed."""


def write_message(stream: BinaryIO | IO[bytes], members: Members, blobs: Sequence[bytes]) -> None:
    """Write a message."""
    head = json.dumps({"members": members, "sizes": [len(each) for each in blobs]}).encode("ascii")
    stream.write(_HEADER.pack(_MAGIC, len(head)) + head)
    for blob in blobs:
        stream.write(blob)
    stream.write(_END)  # srun hands on whole lines only
    stream.flush()


def read_message(stream: BinaryIO | IO[bytes]) -> Message | None:
    """Read a message; None at the end. Raises ValueError for anything else, such as a job's own output."""
    header = stream.read(_HEADER.size)
    if not header:
        return None
    if len(header) < _HEADER.size or header[:4] != _MAGIC:
        raise ValueError(f"no message of a node, but {header!r}")
    size_bytes = _HEADER.unpack(header)[1]
    if size_bytes > _MAX_HEAD_BYTES:
        raise ValueError("the message is too long")
    head = json.loads(_read_whole(stream, size_bytes))
    blobs = [_read_whole(stream, each) for each in head["sizes"]]
    if _read_whole(stream, len(_END)) != _END:
        raise ValueError("the message goes on after its end")
    return head["members"], blobs


def _read_whole(stream: BinaryIO | IO[bytes], size_bytes: int) -> bytes:
    content = stream.read(size_bytes)
    if len(content) < size_bytes:
        raise ValueError("the message ends early")
    return content


class StreamChannel:
    """Leads to a process, local or started through another program, by its standard streams."""

    def __init__(self, command: Sequence[str]) -> None:
        """Start it. Raises NodeLostError if the program is not there."""
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - close() closes it
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                start_new_session=True,  # Ctrl-C is for us
            )
        except OSError as error:
            self._said.close()
            raise NodeLostError(f"{command[0]}: {error.strerror}") from error

    def call(self, name: str, members: Members, blobs: Sequence[bytes] = ()) -> Message:
        """Send a call and wait for its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            write_message(self._process.stdin, {"call": name, **members}, blobs)
            answer = read_message(self._process.stdout)
        except (OSError, ValueError, KeyError) as error:
            raise NodeLostError(self._explain(str(error))) from error
        if answer is None:
            raise NodeLostError(self._explain("it has closed its output"))
        return answer

    def kill(self) -> None:
        """End the process by a signal; by SIGKILL if it stays, as srun does if its node hangs."""
        self._process.terminate()  # srun ends its task, too
        if self._wait() is None:
            self._process.kill()

    def close(self) -> None:
        """End the process by the end of its input."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        for end in (self._process.terminate, self._process.kill):
            if self._wait() is not None:
                break
            end()
        self._process.wait()
        self._process.stdout.close()
        self._said.close()

    def _wait(self) -> int | None:
        try:
            return self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return None

    def _explain(self, error: str) -> str:
        code = self._wait()
        self._said.seek(max(0, self._said.seek(0, os.SEEK_END) - _MAX_SAID))
        said = self._said.read().decode(errors="replace").strip().splitlines()
        how = error if code is None else f"signal {-code}" if code < 0 else f"exit code {code}"
        return how + (f": {said[-1]}" if said else "")
