"""A stage that is stopped (SIGSTOP) keeps no program from ending, whatever the program waits for then.

`tests/conformance/test_failures.py` stops it while the program dispatches, and in the middle of one capture.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest
from stages import executable

from kerncap_stages.errors import ExitCode

STAGES = [("profile",), ("capture", "--kernel", "absent")]
LIMIT_S = 90  # two waits of 20 s, and the program's own time on a busy machine


class Stage:
    """A stage in the background. When it is left, it goes on, and ends."""

    def __init__(self, stages, *words: object) -> None:
        self.folder = stages.folder
        self.printed = stages.folder / "printed"
        name, *options = map(str, words)
        self._process = subprocess.Popen(
            [*executable(name), "--app-stdout", str(self.printed), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=stages.environment,
            cwd=stages.folder,
        )
        self.said = ""

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGCONT)
        self.said = self._process.communicate(timeout=LIMIT_S)[1]

    @property
    def exit_code(self) -> int:
        return self._process.returncode

    def program(self, path: Path) -> int:
        """The number of the program's process, once it runs."""
        return self.wait_for(lambda: self._process_of(path))

    def _process_of(self, path: Path) -> int | None:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if os.fsencode(path) in words[:2] and (folder / "cwd").readlink() == self.folder:
                    return int(folder.name) if int(folder.name) != self._process.pid else None
            except OSError:
                continue
        return None

    def wait_for(self, look):
        limit = time.monotonic() + LIMIT_S
        while not (found := look()):
            assert self._process.poll() is None, self._process.communicate()
            assert time.monotonic() < limit
            time.sleep(0.01)
        return found

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    @staticmethod
    def ends(process_id: int) -> bool:
        descriptor = os.pidfd_open(process_id)
        try:
            return bool(select.select([descriptor], [], [], LIMIT_S)[0])
        finally:
            os.close(descriptor)


@pytest.mark.parametrize("words", STAGES)
def test_a_program_that_starts_while_the_stage_is_stopped(stages, program, words):
    """It waits for the stage's welcome."""
    script = stages.folder / "waits"
    script.write_text('#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.05; done\nexec "$@"\n')
    script.chmod(0o755)
    with Stage(stages, *words, "--", script, program("memory_kinds")) as stage:
        running = stage.program(script)
        stage.stop()
        (stages.folder / "go").touch()
        assert stage.ends(running), "the program waits for the stage"
    assert "wrong 0" in stage.printed.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("words", STAGES)
def test_a_program_that_loads_code_while_the_stage_is_stopped(stages, program, words):
    """It waits for answers, and for room for its messages."""
    app = program("many_modules")
    with Stage(stages, *words, "--", app, program("words_kernels"), 800) as stage:
        running = stage.program(app)
        stage.wait_for(lambda: stage.printed.exists() and "100 loaded" in stage.printed.read_text())
        stage.stop()
        assert stage.ends(running), "the program waits for the stage"
    assert "wrong 0" in stage.printed.read_text()


@pytest.mark.slow
def test_threads_that_give_memory_up_while_the_stage_is_stopped(stages, program):
    """Unmapping and unpinning wait for the end of the running capture, which waits for the stage."""
    app, count = program("stress_threads"), 20
    with Stage(
        stages, "capture", "--kernel", "target(", "--count", count, "--wait", 5, "--", app, count, 1
    ) as stage:
        running = stage.program(app)
        stage.wait_for(lambda: len(list((stages.store / "artifacts").rglob("*"))) > 3)
        stage.stop()
        assert stage.ends(running), "the program waits for the stage"
    assert "wrong 0" in stage.printed.read_text()
    assert stage.exit_code in (0, ExitCode.DEVICE), stage.said
    assert "the collector took no more data" in stage.said
