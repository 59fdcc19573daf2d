"""What a worker answers if something fails that nobody foresaw."""

from __future__ import annotations

import struct

import pytest

from kerncap_stages.errors import ExitCode
from kerncap_stages.evaluate.memory_limit import MemoryLimit
from kerncap_stages.evaluate.tasks import Setup, Task
from kerncap_stages.evaluate.worker import Worker
from kerncap_stages.validate.request import JudgeSettings


@pytest.mark.parametrize("error", [struct.error("too short"), ValueError("no number"), RecursionError()])
def test_any_error_is_an_answer_without_a_verdict_and_the_worker_starts_again(store, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(Worker, "_judge", fail)
    monkeypatch.setattr("kerncap_stages.evaluate.worker._forget_output", lambda: None)
    setup = Setup(str(store.root), True, JudgeSettings(), "machine", 20, False, 1 << 30, 1 << 40, 0)
    with MemoryLimit(0) as limit:
        result = Worker(setup, limit).answer(Task(7, "capture", None, "/code", None, None))
    assert (result.number, result.passed, result.exit_code) == (7, None, ExitCode.DEVICE)
    assert type(error).__name__ in result.reasons[0]
    assert result.is_final
    assert result.again
