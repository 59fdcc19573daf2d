"""Workers as Ray's actors, one GPU each, or one core each for the software GPU, on a cluster that exists.

Nodes need this package. What they need of the coordinator comes with calls of the actor. The actor hands
them to a process of its own, which outlives it and cleans up: Ray ends actors without a chance to do so.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import threading
from typing import TYPE_CHECKING, Any

from kerncap_stages.errors import UsageError
from kerncap_stages.evaluate.channel import NODE_COMMAND, NodeLostError, StreamChannel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.evaluate.channel import Members, Message

_LOOK_S = 1.0
_END_S = 10.0
_NO_HANDLER = "RAY_DISABLE_FAILURE_SIGNAL_HANDLER"  # it prints a stack of Ray's at SIGTERM
# With an actor Ray kills the actor's children, but not theirs: the shell is killed, and the node is not.
_APART = ("sh", "-c", '"$@"; exit $?', "sh")


class NodeActor:
    """An actor's process: it hands calls to a node process, which ends when this one does."""

    def __init__(self) -> None:
        self._channel = StreamChannel([*_APART, *NODE_COMMAND])

    def answer(self, members: dict[str, Any], blobs: list[bytes]) -> Message:
        """Answer a call."""
        others = dict(members)
        try:
            return self._channel.call(others.pop("call"), others, blobs)
        except NodeLostError as error:
            return {"broken": f"{socket.gethostname()}: {error}"}, []

    def close(self) -> None:
        """Let the node remove what is there."""
        self._channel.close()


class RayPlace:
    """Starts nodes as actors."""

    def __init__(self, address: str | None, *, is_software: bool) -> None:
        """Join a cluster. ``address``: ``ray://…``; None: RAY_ADDRESS, or the one that runs on this machine.

        Raises UsageError if Ray is not installed, or no cluster is there.
        """
        os.environ.setdefault(_NO_HANDLER, "1")  # Ray reads it when it is imported
        try:
            self._ray: Any = importlib.import_module("ray")
        except ImportError as error:
            raise UsageError(
                f"--on {address or 'ray'}: Ray is not installed here",
                hint="pip install 'kerncap-stages[ray]'",
            ) from error
        self._resource = "CPU" if is_software else "GPU"
        self._joined = not self._ray.is_initialized()
        if self._joined:
            try:
                with _keep_handler():
                    self._ray.init(address=address or "auto", log_to_driver=False, configure_logging=False)
            except Exception as error:  # its own classes differ by how the cluster is reached
                raise UsageError(
                    f"--on {address or 'ray'}: {error}".splitlines()[0],
                    hint="`ray start --head` begins a cluster; RAY_ADDRESS or ray://HOST:10001 names one",
                ) from error
        needs = {"num_cpus": 1} if is_software else {"num_cpus": 0, "num_gpus": 1}
        # A lost node's actor is asked for again by us: its task is not repeated behind our back.
        self._actor = self._ray.remote(NodeActor).options(max_restarts=0, max_task_retries=0, **needs)

    def count_free(self) -> int:
        """Return how many GPUs, or cores, the cluster has. Raises UsageError if it has none yet."""
        count = int(self._ray.cluster_resources().get(self._resource, 0))
        if count < 1:
            raise UsageError(
                f"--on ray: the cluster has no {self._resource} yet", hint="say how many workers: --workers 8"
            )
        return count

    def open(self, number: int) -> RayChannel:  # noqa: ARG002 - all are alike
        """Ask for an actor."""
        try:
            return RayChannel(self._ray, self._actor.remote())
        except self._ray.exceptions.RayError as error:
            raise NodeLostError(_say(error)) from error

    def leave(self) -> None:
        """Leave the cluster, unless the caller's program had joined it."""
        if self._joined:
            self._ray.shutdown()


class RayChannel:
    """Leads to an actor."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray = ray
        self._actor = actor
        self._is_killed = False

    def call(self, name: str, members: Members, blobs: Sequence[bytes] = ()) -> Message:
        """Call the actor and wait."""
        try:
            reference = self._actor.answer.remote({"call": name, **members}, list(blobs))
            while not self._ray.wait([reference], timeout=_LOOK_S)[0]:
                if self._is_killed:
                    raise NodeLostError("it was ended")
            answer: Message = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            raise NodeLostError(_say(error)) from error
        return answer

    def kill(self) -> None:
        """End the actor. Its node then ends by itself."""
        self._is_killed = True
        with contextlib.suppress(Exception):  # it may be gone, or Ray itself
            self._ray.kill(self._actor)

    def close(self) -> None:
        """Let the actor remove what it has, and end it."""
        if not self._is_killed:
            with contextlib.suppress(Exception):
                self._ray.wait([self._actor.close.remote()], timeout=_END_S)
            self.kill()


@contextlib.contextmanager
def _keep_handler() -> Iterator[None]:
    """Keep what SIGTERM does here: Ray makes it end the process at once, and nothing would be published."""
    kept = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and kept is not None:
            signal.signal(signal.SIGTERM, kept)


def _say(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines)[:300]}"
