"""Kills and full disks in the middle of a capture: no artifact, and a clear word."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
import small_disk
from stages import BACKGROUND_LIMIT_S, BackgroundStage, ends, executable

from kerncap_stages.errors import ExitCode
from kerncap_stages.store import Store
from kerncap_stages.store.check import check_store


@pytest.fixture
def large_mib(backend):
    """Enough to be in the middle of it for a while."""
    return 192 if backend == "hsa" else 6144


def start(stages, app, *words, options=()) -> BackgroundStage:
    return stages.start("capture", "--kernel", "target(", *options, "--", app, *words)


def staged_bytes(stages) -> int:
    total = 0
    for path in (stages.store / "tmp").rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def wait_until_captured_in_part(stages, stage) -> None:
    """Return once some of the memory is on its way into the store, long before all of it can be."""
    stage.wait_until(lambda: staged_bytes(stages) >= 1 << 20)


def test_the_program_is_killed_in_the_middle_of_a_capture(stages, program, large_mib):
    app = program("large")
    with start(stages, app, large_mib) as stage:
        wait_until_captured_in_part(stages, stage)
        running = stage.find_program(app)
        signal.pidfd_send_signal(running, signal.SIGKILL)
        assert ends(running)
    assert stage.exit_code == ExitCode.PROGRAM, stage.err
    assert stage.out == ""
    assert "SIGKILL" in stage.err
    assert "in the middle of a capture" in stage.err
    store = Store.open(stages.store)
    assert store.list_artifacts() == []
    assert check_store(store).ok
    assert staged_bytes(stages) == 0


def test_the_stage_is_killed_in_the_middle_of_a_capture(stages, program, large_mib):
    """The program goes on to its end, and the store holds no artifact."""
    app = program("large")
    with start(stages, app, large_mib) as stage:
        wait_until_captured_in_part(stages, stage)
        running = stage.find_program(app)
        stage.process.kill()
        stage.process.wait()
        assert ends(running), "the program hangs"
    assert stage.has_printed("done 1")
    store = Store.open(stages.store)
    assert store.list_artifacts() == []
    stages.run("store", "gc").must()
    assert check_store(store).ok
    assert staged_bytes(stages) == 0


@pytest.mark.parametrize(
    ("words", "number", "kept", "told"),
    [
        (("profile",), signal.SIGINT, 1, "holds what ran until then"),
        (("profile",), signal.SIGTERM, 1, "holds what ran until then"),
        (("capture", "--kernel", "absent"), signal.SIGINT, 0, "captures made: 0"),
        (("capture", "--kernel", "absent"), signal.SIGHUP, 0, "captures made: 0"),
    ],
)
def test_an_interrupted_stage_ends_the_program_and_leaves_nothing_in_parts(
    stages, program, words, number, kept, told
):
    script = stages.folder / "and-wait"
    script.write_text('#!/bin/sh\n"$1" 1 1\nexec sleep 1000\n')
    script.chmod(0o755)
    temporary = stages.folder / "temporary"
    temporary.mkdir()
    words = (*words, "--", script, program("many_dispatches"))
    with stages.start(*words, TMPDIR=str(temporary)) as stage:
        running = stage.find_program("sleep")
        stage.process.send_signal(number)
        assert stage.process.wait(BACKGROUND_LIMIT_S) == -number
    assert told in stage.err
    assert stage.has_printed("dispatches_per_s")
    assert [entry.kind for entry in Store.open(stages.store).list_artifacts()] == ["profile"] * kept
    assert ends(running), "the program goes on"
    assert list(temporary.iterdir()) == []


def test_an_interrupted_profile_holds_what_a_running_program_did_until_then(stages, program):
    app = program("many_dispatches")
    with stages.start("profile", "--", app, 1 << 30) as stage:
        stage.wait_until(lambda: stage.has_printed("100000 launched"))
        time.sleep(1)  # until times of some dispatches have come
        stage.process.send_signal(signal.SIGINT)
        assert stage.process.wait(BACKGROUND_LIMIT_S) == -signal.SIGINT
    (entry,) = Store.open(stages.store).list_artifacts()
    assert f"profile {entry.digest.short} holds what ran until then" in stage.err
    calls = {kernel["name"].split("(")[0]: kernel["calls"] for kernel in stages.show(entry.digest)["kernels"]}
    assert 0 < calls["other"] < 1 << 30


@pytest.mark.usefixtures("own_mounts")
def test_a_disk_that_fills_up_in_the_middle_of_a_capture(stages, program, large_mib, tmp_path):
    printed = stages.folder / "printed"
    disk = tmp_path / "small-disk"
    disk.mkdir()
    words = [*executable("capture"), "--kernel", "target(", "--app-stdout", str(printed)]
    script = (
        '"$@"; code=$?; ls "$KERNCAP_STORE/artifacts" | wc -l; ls "$KERNCAP_STORE/tmp" | wc -l; exit $code'
    )
    done = subprocess.run(
        [
            *[sys.executable, small_disk.__file__, str(disk), str(40 << 20), "sh", "-c", script, "sh"],
            *[*words, "--", str(program("large")), str(large_mib)],
        ],
        env={**stages.environment, "KERNCAP_STORE": str(disk / "store")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=stages.folder,
        timeout=BACKGROUND_LIMIT_S,
        check=False,
    )
    assert done.returncode == ExitCode.ARTIFACT, done.stderr
    assert "No space left on device" in done.stderr
    assert done.stdout.split() == ["0", "0"]
    assert "done 1" in printed.read_text()


@pytest.mark.parametrize("words", [("profile",), ("capture", "--kernel", "absent")])
def test_a_stage_that_is_stopped_does_not_keep_the_program_from_ending(stages, program, words):
    """The stage finds out when it goes on, and says that something is missing."""
    app = program("many_dispatches")
    with stages.start(*words, "--", app, 300_000) as stage:
        stage.wait_until(lambda: stage.has_printed("100000 launched"))
        running = stage.find_program(app)
        stage.process.send_signal(signal.SIGSTOP)
        assert ends(running, 60), "the program waits for the stage"
    assert stage.has_printed("wrong 0")
    if words == ("profile",):
        assert stage.exit_code == 0, stage.err
        assert "have no time and are not in the table" in stage.err


def test_a_stage_that_is_stopped_in_the_middle_of_a_capture_holds_the_program_no_longer_than_asked(
    stages, program, large_mib
):
    app = program("large")
    with start(stages, app, large_mib, options=("--wait", 5)) as stage:
        wait_until_captured_in_part(stages, stage)
        running = stage.find_program(app)
        stage.process.send_signal(signal.SIGSTOP)
        assert ends(running, 60), "the program waits for the stage"
    assert stage.has_printed("done 1")
    assert stage.exit_code == ExitCode.DEVICE, stage.err
    assert "the collector took no more data" in stage.err
    assert Store.open(stages.store).list_artifacts() == []
