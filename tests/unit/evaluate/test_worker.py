"""How a worker starts, and what it answers if something fails that nobody foresaw."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from kerncap_stages.errors import DeviceError, ExitCode
from kerncap_stages.evaluate import scratch
from kerncap_stages.evaluate.answering import Worker
from kerncap_stages.evaluate.memory_limit import MemoryLimit
from kerncap_stages.evaluate.tasks import READY, Setup, Task, write
from kerncap_stages.validate.request import JudgeSettings


@pytest.fixture
def answer(store, monkeypatch):
    """What a worker answers if its task fails with an error."""

    def answer(error, *, in_memory=False):
        def fail(*_):
            raise error

        monkeypatch.setattr(Worker, "_judge", fail)
        monkeypatch.setattr("kerncap_stages.evaluate.answering._forget_output", lambda: None)
        settings = JudgeSettings()
        setup = Setup(
            str(store.root), True, settings, "machine", 20, False, 1 << 30, 1 << 40, 0, in_memory=in_memory
        )
        with MemoryLimit(0) as limit:
            return Worker(setup, limit).answer(Task(7, "capture", None, "/code", None, None))

    return answer


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="numpy starts no threads on one processor")
def test_a_worker_has_one_thread_though_numpy_could_have_more(store):
    """Threads of numpy's that wait for work take processor time from the other workers."""
    setup = Setup(str(store.root), True, JudgeSettings(), "machine", 20, False, 1 << 30, 1 << 40, 0)
    clean = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "kerncap_stages.evaluate.worker"],
        env=clean,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        process.stdin.write(write(setup))
        process.stdin.flush()
        assert process.stdout.readline() == READY
        assert "openblas" in Path(f"/proc/{process.pid}/maps").read_text()
        assert len(list(Path(f"/proc/{process.pid}/task").iterdir())) == 1
        process.stdin.close()
        assert process.wait(60) == 0


@pytest.mark.parametrize("error", [struct.error("too short"), ValueError("no number"), RecursionError()])
def test_any_error_is_an_answer_without_a_verdict_and_the_worker_starts_again(answer, error):
    result = answer(error)
    assert (result.number, result.passed, result.exit_code) == (7, None, ExitCode.DEVICE)
    assert type(error).__name__ in result.reasons[0]
    assert result.is_final
    assert result.again


def test_an_error_of_the_system_is_not_final_and_the_worker_starts_again(answer):
    result = answer(OSError(errno.ENOSPC, "No space left on device"))
    assert "No space left" in result.reasons[0]
    assert not result.is_final
    assert result.again


@pytest.mark.parametrize(
    ("in_memory", "free_bytes", "again"),
    [(True, 1 << 20, True), (True, 1 << 40, False), (False, 1 << 20, False)],
)
def test_a_worker_without_room_in_memory_starts_again(answer, monkeypatch, in_memory, free_bytes, again):
    monkeypatch.setattr(scratch, "_has_room", lambda _place, needed_bytes: needed_bytes <= free_bytes)
    result = answer(DeviceError("the replay could not write its report"), in_memory=in_memory)
    assert not result.is_final
    assert result.again == again
