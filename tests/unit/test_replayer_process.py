"""The process that replays: what is waited for, and for how long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from kerncap_stages.replaying import process as process_module
from kerncap_stages.replaying.process import run_replayer

SLEEPS = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def held(monkeypatch):
    """Processes as a driver holds them that never lets go: ``kill`` alone does not end them."""
    started = []

    class Held(subprocess.Popen):
        def __init__(self, *words, **options):
            super().__init__(*words, **options)
            started.append(self)

        def kill(self):
            """It stays."""

    monkeypatch.setattr(subprocess, "Popen", Held)
    monkeypatch.setattr(process_module, "_LETTING_GO_S", 0.1)
    yield started
    for process in started:
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_one_that_does_not_end_in_time_is_killed_and_gone(tmp_path):
    pid = tmp_path / "pid"
    tells = f"import os, pathlib; pathlib.Path({str(pid)!r}).write_text(str(os.getpid())); " + SLEEPS[-1]
    assert run_replayer([*SLEEPS[:-1], tells], os.environ, 5, progress=None) is None
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_one_that_its_driver_never_lets_go_does_not_hold_the_stage(held):
    assert run_replayer(SLEEPS, os.environ, 0.1, progress=None) is None
    assert [process.poll() for process in held] == [None]
