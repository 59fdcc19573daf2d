"""Worker processes on this machine, as the coordinator sees them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kerncap_stages.evaluate.contract import Ready
from kerncap_stages.evaluate.tasks import READY, Result, Setup, Task, read_result, write
from kerncap_stages.manifests.environment import Backend
from kerncap_stages.validate.replays.speculation import Neighbours

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kerncap_stages.evaluate.scratch import Scratch
    from kerncap_stages.manifests.capture import Capture

# -P: a file in the working folder must not stand in for one of the package's.
_COMMAND = (sys.executable, "-P", "-m", "kerncap_stages.evaluate.worker")
_SOFTGPU_WORKERS = "KERNCAP_SOFTGPU_WORKERS"
# HIP's numbers count those that ROCr leaves, and HIP reads CUDA's without its own; the replayer asks ROCr.
_ROCR, _HIP, _CUDA = "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"
_KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")
_MAX_SAID = 2000
_END_S = 10.0


class WorkerProcess:
    """A worker of ours. It has at most one task at a time."""

    def __init__(
        self,
        place: int,
        setup: Setup,
        scratch: Scratch,
        environment: Mapping[str, str],
        tell: Callable[[WorkerProcess, Ready | Result | None], None],
    ) -> None:
        """Start it. ``place``: its number among the workers.

        tell: called in a thread when it is ready, with each result, and at last with None.
        """
        self.place = place
        self.source = scratch
        self.task: Task | None = None
        self.machine: str | None = None
        self.is_ending = False  # it said so, or we ended it
        self.is_lost = False  # if a process of ours dies, its task may be the reason
        self._machine = setup.machine
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - end() closes it
        self._process = subprocess.Popen(
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env=dict(environment),
            start_new_session=True,  # Ctrl-C is for us
        )
        self._thread = threading.Thread(target=self._read, args=(tell,), daemon=True)
        self._thread.start()
        self._send(write(setup))

    @property
    def process_id(self) -> int:
        """Its process id."""
        return self._process.pid

    def give(self, task: Task) -> None:
        """Give it a task. If it has died, ``tell`` is called."""
        self.task = task
        self._send(write(task))

    def end(self) -> None:
        """Let it end: it has no task, or is killed."""
        self.is_ending = True
        with contextlib.suppress(OSError):  # a worker without a task ends by this
            self._input.close()
        if self.task is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
        self._process.kill()
        self._process.wait()
        self._thread.join()
        self.source.remove()
        self._said.close()

    def explain_death(self) -> str:
        """Explain why it ended, with the end of what it wrote to standard error."""
        code = self._process.wait()
        with contextlib.suppress(OSError):
            self._said.seek(max(0, self._said.seek(0, os.SEEK_END) - _MAX_SAID))
        text = self._said.read().decode(errors="replace").strip().splitlines()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"the worker process ended with {how}" + (f": {text[-1]}" if text else "")

    @property
    def _input(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _send(self, line: bytes) -> None:
        with contextlib.suppress(OSError):  # it has died, which the thread tells
            self._input.write(line)
            self._input.flush()

    def _read(self, tell: Callable[[WorkerProcess, Ready | Result | None], None]) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as answers, contextlib.suppress(ValueError, TypeError, KeyError):
            if answers.readline() == READY:
                tell(self, Ready(self._machine))
            for line in answers:
                tell(self, read_result(line))
        tell(self, None)


def count_workers(backend: str, *, is_software: bool) -> int:
    """Choose how many workers run: one for each GPU, or for each core if that GPU is software."""
    if is_software:
        return len(os.sched_getaffinity(0))
    return max(1, len(list_gpus(backend)))


def share_cores(count: int) -> dict[str, str]:
    """Return the variable that gives each of so many software GPUs its share of the cores.

    Nothing if the user has set it.
    """
    if _SOFTGPU_WORKERS in os.environ:
        return {}
    return {_SOFTGPU_WORKERS: str(max(1, len(os.sched_getaffinity(0)) // count))}


def choose_count(wanted: int | None, capture: Capture) -> int:
    """Return how many workers judge variants of a capture. ``wanted``: by the user; None: as many as fit."""
    is_software = capture.device.software
    return wanted or count_workers(capture.environment.backend, is_software=is_software)


def find_neighbours(count: int, capture: Capture) -> Neighbours:
    """Return what each of so many workers has beside it, for variants of a capture."""
    device = capture.device
    own = count <= count_workers(capture.environment.backend, is_software=False)
    return Neighbours(on_machine=count > 1, on_device=not device.software and not own)


def list_gpus(backend: str) -> list[str]:
    """Return the GPUs that workers may use, as CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES name them."""
    if backend == Backend.CUDA:
        numbers = range(len(list(Path("/dev").glob("nvidia[0-9]*"))))
        chosen = _read_chosen(_CUDA)
        return [str(number) for number in numbers] if chosen is None else chosen
    chosen = _read_chosen(_ROCR)
    if chosen is None:
        gpus = [node for node in _list(_KFD_NODES) if "simd_count 0\n" not in _read(node / "properties")]
        chosen = [str(number) for number, _ in enumerate(gpus)]
    by_hip = _read_chosen(_HIP) if _HIP in os.environ else _read_chosen(_CUDA) or None
    if by_hip is None:
        return chosen
    # HIP counts those that ROCr leaves, and takes names, too.
    known = [each for each in by_hip if not each.isdecimal() or int(each) < len(chosen)]
    return [chosen[int(each)] if each.isdecimal() else each for each in known]


def choose_gpu(backend: str, device_index: int, place: int) -> dict[str, str]:
    """Return the variables by which a worker sees one GPU where the capture's was.

    Nothing where there is one GPU that ROCr or CUDA choose by themselves.
    """
    gpus = list_gpus(backend)
    is_by_hip = backend != Backend.CUDA and (_HIP in os.environ or bool(os.environ.get(_CUDA)))
    if not gpus or (len(gpus) == 1 and not is_by_hip):
        return {}
    mine = gpus.pop(place % len(gpus))
    gpus.insert(min(device_index, len(gpus)), mine)
    if backend == Backend.CUDA:
        return {_CUDA: ",".join(gpus)}
    chosen = {_ROCR: ",".join(gpus)}
    if is_by_hip:
        chosen[_HIP] = ",".join(str(number) for number, _ in enumerate(gpus))
    return chosen


def _read_chosen(name: str) -> list[str] | None:
    """Return the GPUs that a variable chooses; none if it is empty, and None if it is not set."""
    text = os.environ.get(name)
    return None if text is None else [each.strip() for each in text.split(",") if each.strip()]


def _list(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir(), key=lambda each: (len(each.name), each.name))
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return "simd_count 0\n"
