"""What a worker does: it reads tasks, judges one variant after the other, and writes answers.

It ends when its input ends, or when its memory or its store has grown too large.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from kerncap_stages.digest import Digest
from kerncap_stages.errors import ArtifactError, DeviceError, ExitCode, KerncapError, Refused, UsageError
from kerncap_stages.evaluate.judging import VariantJudge
from kerncap_stages.evaluate.memory_limit import MemoryLimit, measure_memory
from kerncap_stages.evaluate.scratch import is_short_of_room
from kerncap_stages.evaluate.tasks import (
    READY,
    Result,
    Setup,
    Task,
    explain_unforeseen,
    read_setup,
    read_task,
    write,
)
from kerncap_stages.evaluate.timing import Timer
from kerncap_stages.machine.cupti import CUPTI, choose_cupti_paths
from kerncap_stages.machine.softgpu import fall_back
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.replay.ahead import ReplayersAhead
from kerncap_stages.replay.kept import KeptReplayers
from kerncap_stages.replay.one_gpu import choose_only_gpu
from kerncap_stages.replay.variant_shape import VariantShape
from kerncap_stages.store import Store
from kerncap_stages.validate.replays.baselines import find_lasting

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOOK_EVERY = 32  # tasks, at the size of the store
_MAX_CAPTURES = 4  # that have processes on the GPU at the same time: the driver takes half a GiB for each


class Worker:
    """Judges variants in one store."""

    def __init__(self, setup: Setup, limit: MemoryLimit) -> None:
        self._setup = setup
        self._limit = limit
        self._store = Store.open(Path(setup.store), create=False)
        self._judges: dict[str, tuple[VariantJudge, Timer]] = {}
        self._replayers: dict[str, tuple[KeptReplayers, KeptReplayers]] = {}  # the latest captures last
        self._done = 0
        self._first_bytes = _measure_folder(self._store.root)

    def answer(self, task: Task) -> Result:
        """Carry out a task. What is wrong with a variant is a result, whatever it is."""
        self._limit.exceeded = False
        _forget_output()
        try:
            result = self._judge(task)
        except (UsageError, Refused) as error:
            result = _fail(task, error)
        except (DeviceError, ArtifactError) as error:  # perhaps not for long, and not the variant's fault
            result = replace(_fail(task, error), is_final=False)
        except OSError as error:  # such as a full disk
            result = replace(_explain(task, error), is_final=False)
        except Exception as error:  # what a variant has written may be anything, and is read here
            result = _explain(task, error)
        if self._limit.exceeded:  # whatever was made of the death of a replay is no verdict
            result = Result(task.number, reasons=(self._explain_limit(),), exit_code=int(ExitCode.DEVICE))
        self._done += 1
        if self._is_too_large() or (not result.is_final and self._is_short_of_room()):
            return replace(result, again=True)
        return result

    def close(self) -> None:
        """Wait for what still runs."""
        for judge, _ in self._judges.values():
            judge.close()
        for both in self._replayers.values():
            for each in both:
                each.__exit__(None, None, None)

    def _judge(self, task: Task) -> Result:
        judge, timer = self._find_judge(task)
        shape = None if task.shape is None else _read_shape(task.shape)
        if task.code is None:
            raise UsageError("a task without a variant")
        variant = Path(task.code)
        if task.judged:
            time, wrong = timer.time(variant, shape, None, alone=task.alone)
            return Result(
                task.number,
                passed=not wrong,
                reasons=wrong,
                time=None if time is None else time.model_dump(mode="json"),
                is_wrong_when_timed=bool(wrong),
                own_process=timer.had_own_process,
            )
        try:
            judge.refuse(variant)
        except ArtifactError as error:  # the variant's, not the store's
            return _fail(task, error)
        judged = judge.judge(variant, shape, task.seed, alone=task.alone)
        passed, reasons, time = judged.verdict.passed, judged.verdict.reasons, None
        wrong, is_own = (), judged.own_process
        variant_code = judged.verdict.variant
        if passed and self._setup.times:
            time, wrong = timer.time(variant, shape, judged.instructions, alone=task.alone)
            is_own = is_own and timer.had_own_process
            passed, reasons = not wrong, (*wrong, *reasons)
        return Result(
            task.number,
            passed=passed,
            verdict=str(judged.digest),
            code=None if variant_code is None else str(variant_code.payload.digest),
            reasons=tuple(reasons),
            time=None if time is None else time.model_dump(mode="json"),
            kept=tuple(str(each.key) for each in find_lasting(judged.verdict.baselines)),
            is_wrong_when_timed=bool(wrong),
            own_process=is_own,
        )

    def _find_judge(self, task: Task) -> tuple[VariantJudge, Timer]:
        found = self._judges.get(task.capture)
        if found is None:
            setup, digest = self._setup, Digest(task.capture)
            source = None if task.source is None else Digest(task.source)
            replayers = _open_replayers(self._store, digest)
            judge = VariantJudge(
                self._store,
                digest,
                source,
                setup.settings,
                setup.machine,
                replayers[0],
                lists=setup.lists,
                fresh=setup.fresh,
                in_memory=setup.in_memory,
                neighbours=setup.neighbours,
            )
            timer = Timer(self._store, digest, judge.capture, setup.settings, setup.runs, replayers[1])
            found = self._judges[task.capture] = (judge, timer)
            self._replayers[task.capture] = replayers
        self._replayers[task.capture] = self._replayers.pop(task.capture)
        for both in list(self._replayers.values())[:-_MAX_CAPTURES]:
            for each in both:
                each.end_process()
        return found

    def _explain_limit(self) -> str:
        mib = self._setup.max_replay_bytes >> 20
        return f"its replays need more than {mib} MiB of memory, so there is no verdict: --max-memory"

    def _is_short_of_room(self) -> bool:
        """Whether our files are in memory that others have filled: the next worker's are on the disk then."""
        return self._setup.in_memory and is_short_of_room(self._store.root)

    def _is_too_large(self) -> bool:
        if measure_memory(os.getpid()) > self._setup.max_memory_bytes:
            return True
        if self._setup.lists or self._done % _LOOK_EVERY:
            return False
        return _measure_folder(self._store.root) - self._first_bytes > self._setup.max_store_bytes


def _fail(task: Task, error: KerncapError) -> Result:
    return Result(task.number, reasons=(str(error),), exit_code=int(error.exit_code))


def _explain(task: Task, error: Exception) -> Result:
    """Answer that there is no verdict because of an error that nobody foresaw. The process ends after it."""
    reason = explain_unforeseen(error)
    return Result(task.number, reasons=(reason,), exit_code=int(ExitCode.DEVICE), again=True)


def _open_replayers(store: Store, digest: Digest) -> tuple[KeptReplayers, KeptReplayers]:
    """Open those that judge, and those that time."""
    captured = load_as(store, digest, Capture)
    where = (captured.environment.backend, captured.dispatch.device_index, choose_only_gpu(captured))
    clock = {CUPTI: choose_cupti_paths(os.environ)}
    timing = KeptReplayers(*where, timed=True, variables=clock)
    if not captured.device.software:
        return KeptReplayers(*where), timing
    environment = {**os.environ, **fall_back(os.environ, captured.device.architecture)}
    return ReplayersAhead(captured.dispatch.device_index, environment), timing


def _read_shape(members: dict[str, Any]) -> VariantShape:
    grid, block = members["grid_blocks"], members["block_work_items"]
    return VariantShape(
        None if grid is None else tuple(grid),
        None if block is None else tuple(block),
        members["dynamic_lds_bytes"],
    )


def _forget_output() -> None:
    """Empty the file that is our standard error: kernels may print, and nobody reads it."""
    with contextlib.suppress(OSError):
        os.ftruncate(2, 0)
        os.lseek(2, 0, os.SEEK_SET)


def _measure_folder(root: Path) -> int:
    total = 0
    for folder, _, files in os.walk(root / "objects"):
        for name in files:
            with contextlib.suppress(OSError):
                total += Path(folder, name).stat().st_size
    return total


def serve(lines: BinaryIO, answers: BinaryIO) -> None:
    """Answer each line with a line."""
    setup = read_setup(lines.readline())
    with MemoryLimit(setup.max_replay_bytes) as limit:
        worker = Worker(setup, limit)
        answers.write(READY)
        answers.flush()
        try:
            for task in _read_tasks(lines):
                result = worker.answer(task)
                answers.write(write(result))
                answers.flush()
                if result.again:
                    break
        finally:
            worker.close()


def _read_tasks(lines: BinaryIO) -> Iterator[Task]:
    while line := lines.readline():
        yield read_task(line)
