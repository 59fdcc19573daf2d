"""A stage that is stopped (SIGSTOP) keeps no program from ending, whatever the program waits for then.

`tests/conformance/test_failures.py` stops it while the program dispatches, and in the middle of one capture.
"""

from __future__ import annotations

import signal

import pytest
from stages import ends

from kerncap_stages.errors import ExitCode

STAGES = [("profile",), ("capture", "--kernel", "absent")]
LIMIT_S = 90  # two waits of 20 s, and the program's own time on a busy machine


@pytest.mark.parametrize("words", [pytest.param(STAGES[0], marks=pytest.mark.slow), STAGES[1]])  # 20 s each
def test_a_program_that_starts_while_the_stage_is_stopped(stages, program, words):
    """It waits for the stage's welcome."""
    script = stages.folder / "waits"
    script.write_text('#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.05; done\nexec "$@"\n')
    script.chmod(0o755)
    with stages.start(*words, "--", script, program("memory_kinds")) as stage:
        running = stage.find_program(script)
        stage.process.send_signal(signal.SIGSTOP)
        (stages.folder / "go").touch()
        assert ends(running, LIMIT_S), "the program waits for the stage"
    assert stage.has_printed("wrong 0")
    assert "no answer from the collector" in stage.err
    assert "no longer waited when this stage answered" in stage.err
    assert 0 < stage.exit_code < 128, stage.err  # it was not ended by the process that had gone
    assert "next: " in stage.err


@pytest.mark.slow
@pytest.mark.parametrize("words", STAGES)
def test_a_program_that_loads_code_while_the_stage_is_stopped(stages, program, words):
    """It waits for answers, and for room for its messages."""
    app = program("many_modules")
    with stages.start(*words, "--", app, program("words_kernels"), 800) as stage:
        running = stage.find_program(app)
        stage.wait_until(lambda: stage.has_printed("100 loaded"))
        stage.process.send_signal(signal.SIGSTOP)
        assert ends(running, LIMIT_S), "the program waits for the stage"
    assert stage.has_printed("wrong 0")


@pytest.mark.slow
def test_threads_that_give_memory_up_while_the_stage_is_stopped(stages, program):
    """Unmapping and unpinning wait for the end of the running capture, which waits for the stage."""
    app, count = program("stress_threads"), 20
    with stages.start(
        "capture", "--kernel", "target(", "--count", count, "--wait", 5, "--", app, count, 1
    ) as stage:
        running = stage.find_program(app)
        stage.wait_until(lambda: len(list((stages.store / "artifacts").rglob("*"))) > 3)
        stage.process.send_signal(signal.SIGSTOP)
        assert ends(running, LIMIT_S), "the program waits for the stage"
    assert stage.has_printed("wrong 0")
    assert stage.exit_code in (0, ExitCode.DEVICE), stage.err
    assert "the collector took no more data" in stage.err
