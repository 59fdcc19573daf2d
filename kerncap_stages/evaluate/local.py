"""Workers on this machine: one process for each GPU, or for each core under the software GPU."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kerncap_stages.evaluate.contract import Role
from kerncap_stages.evaluate.tasks import Setup
from kerncap_stages.evaluate.timing import replay_captured
from kerncap_stages.evaluate.workers import WorkerProcess, choose_gpu, share_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kerncap_stages.evaluate.contract import Ready
    from kerncap_stages.evaluate.scratch import ScratchMaker
    from kerncap_stages.evaluate.tasks import Result
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.store import Store
    from kerncap_stages.validate.replays.speculation import Neighbours
    from kerncap_stages.validate.request import JudgeSettings

_MAX_WORKER_BYTES = 384 << 20  # Python, numpy and the capture take about 100 MiB


@dataclass(frozen=True)
class WorkSettings:
    """What all workers of an evaluation have in common.

    runs: timed ones on a device. fresh: use no replays of the captured kernel that earlier verdicts kept.
    max_replay_bytes: of the replays of one variant; 0: any. on_cores: workers only judge, and by the software
    GPU, wherever the capture was taken.
    """

    judge: JudgeSettings
    runs: int
    fresh: bool
    max_replay_bytes: int
    on_cores: bool = False


class LocalWorkforce:
    """Starts worker processes on this machine."""

    max_starts = 2  # the system may have killed the first one

    def __init__(
        self,
        store: Store,
        captures: Sequence[Capture],
        scratches: ScratchMaker,
        settings: WorkSettings,
        count: int,
        machine: str,
        folder: Path,
        neighbours: Neighbours,
    ) -> None:
        """``machine``: identifies this machine. folder: a worker that is killed may leave files in it.

        neighbours: of each worker.
        """
        self.count = self.builds = count
        self.roles = (Role.BOTH,) * count
        self.machine: str | None = machine
        self._identity = machine
        self._store = store
        self._captures = captures
        self._scratches = scratches
        self._settings = settings
        self._neighbours = neighbours
        self._temporary = folder / "temporary"
        self._temporary.mkdir()

    def start(
        self, place: int, tell: Callable[[WorkerProcess, Ready | Result | None], None]
    ) -> WorkerProcess:
        """Start a process."""
        first = self._captures[0]
        scratch = self._scratches.make()
        setup = Setup(
            store=str(scratch.store.root),
            lists=scratch.is_users,
            settings=self._settings.judge,
            machine=self._identity,
            runs=self._settings.runs,
            fresh=self._settings.fresh,
            max_store_bytes=scratch.max_growth_bytes,
            max_memory_bytes=_MAX_WORKER_BYTES,
            max_replay_bytes=self._settings.max_replay_bytes,
            in_memory=scratch.in_memory,
            neighbours=self._neighbours,
            times=not self._settings.on_cores,
        )
        if first.device.software or self._settings.on_cores:
            own = share_cores(self.count)
        else:
            own = choose_gpu(first.environment.backend, first.dispatch.device_index, place)
        try:
            environment = {**os.environ, **own, "TMPDIR": str(scratch.temporary or self._temporary)}
            return WorkerProcess(place, setup, scratch, environment, tell)
        except BaseException:
            scratch.remove()
            raise

    def check(self, case: int) -> None:
        """Replay the captured kernel by itself. Raises DeviceError or ArtifactError if that fails."""
        replay_captured(self._store, self._captures[case], self._settings.judge.timeout_s)

    def end(self) -> None:
        """Do nothing: nothing was joined."""
