"""Kills and full disks in the middle of a capture: no artifact, and a clear word."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import small_disk
from stages import executable

from kerncap_stages.errors import ExitCode
from kerncap_stages.store import Store
from kerncap_stages.store.check import check_store

LIMIT_S = 120


@pytest.fixture
def large_mib(backend):
    """Enough to be in the middle of it for a while."""
    return 192 if backend == "hsa" else 6144


def start(stages, app, *words, options=()) -> subprocess.Popen[str]:
    command = [
        *executable("capture"),
        "--kernel",
        "target(",
        *map(str, options),
        "--",
        str(app),
        *map(str, words),
    ]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=stages.environment,
        cwd=stages.folder,
    )


def start_to_interrupt(stages, number, stage, *words, **variables) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*executable(stage), *words],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**stages.environment, **variables},
        cwd=stages.folder,
        # A machine that runs the tests in the background may ignore it, and hand that on.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )


def staged_bytes(stages) -> int:
    total = 0
    for path in (stages.store / "tmp").rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def wait_until_captured_in_part(stages, process) -> None:
    """Return once some of the memory is on its way into the store, long before all of it can be."""
    limit = time.monotonic() + LIMIT_S
    while staged_bytes(stages) < 1 << 20:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.002)


def process_of(stages, app) -> int | None:
    """The number of the running program that was started as ``app``."""
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if words[0] == os.fsencode(app) and str(stages.folder) == str((folder / "cwd").readlink()):
                return int(folder.name)
        except OSError:
            continue
    return None


def test_the_program_is_killed_in_the_middle_of_a_capture(stages, program, large_mib):
    app = program("large")
    process = start(stages, app, large_mib)
    wait_until_captured_in_part(stages, process)
    os.kill(process_of(stages, app), signal.SIGKILL)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == ExitCode.PROGRAM, err
    assert out == ""
    assert "SIGKILL" in err
    assert "in the middle of a capture" in err
    store = Store.open(stages.store)
    assert store.list_artifacts() == []
    assert check_store(store).ok
    assert staged_bytes(stages) == 0


def test_the_stage_is_killed_in_the_middle_of_a_capture(stages, program, large_mib):
    """The program goes on to its end, and the store holds no artifact."""
    printed = stages.folder / "printed"
    app = program("large")
    process = start(stages, app, large_mib, options=("--app-stdout", printed))
    wait_until_captured_in_part(stages, process)
    program_ends = os.pidfd_open(process_of(stages, app))
    process.kill()
    process.communicate(timeout=LIMIT_S)
    assert select.select([program_ends], [], [], LIMIT_S)[0], "the program hangs"
    os.close(program_ends)
    assert "done 1" in printed.read_text()
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
    with start_to_interrupt(stages, number, *words, TMPDIR=str(temporary)) as process:
        assert any(b"dispatches_per_s" in line for line in process.stderr)
        while (running := process_of(stages, "sleep")) is None:
            time.sleep(0.01)
        program_ends = os.pidfd_open(running)
        process.send_signal(number)
        assert process.wait(LIMIT_S) == -number
        assert told in process.stderr.read().decode()
    assert [entry.kind for entry in Store.open(stages.store).list_artifacts()] == ["profile"] * kept
    assert select.select([program_ends], [], [], LIMIT_S)[0], "the program goes on"
    os.close(program_ends)
    assert list(temporary.iterdir()) == []


def test_an_interrupted_profile_holds_what_a_running_program_did_until_then(stages, program):
    app = program("many_dispatches")
    with start_to_interrupt(stages, signal.SIGINT, "profile", "--", app, str(1 << 30)) as process:
        assert any(b"100000 launched" in line for line in process.stderr)
        time.sleep(1)  # until times of some dispatches have come
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == -signal.SIGINT
        said = process.stderr.read().decode()
    (entry,) = Store.open(stages.store).list_artifacts()
    assert f"profile {entry.digest.short} holds what ran until then" in said
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
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == ExitCode.ARTIFACT, done.stderr
    assert "No space left on device" in done.stderr
    assert done.stdout.split() == ["0", "0"]
    assert "done 1" in printed.read_text()


@pytest.mark.parametrize("stage", [("profile",), ("capture", "--kernel", "absent")])
def test_a_stage_that_is_stopped_does_not_keep_the_program_from_ending(stages, program, stage):
    """The stage finds out when it goes on, and says that something is missing."""
    printed = stages.folder / "printed"
    app = program("many_dispatches")
    words = [*stage, "--app-stdout", printed, "--", app, str(300_000)]
    with start_to_interrupt(stages, signal.SIGINT, *words) as process:
        limit = time.monotonic() + LIMIT_S
        while not printed.exists() or "100000 launched" not in printed.read_text():
            assert time.monotonic() < limit
            time.sleep(0.01)
        process.send_signal(signal.SIGSTOP)
        program_ends = os.pidfd_open(process_of(stages, app))
        try:
            assert select.select([program_ends], [], [], 60)[0], "the program waits for the stage"
        finally:
            process.send_signal(signal.SIGCONT)
        os.close(program_ends)
        process.wait(LIMIT_S)
        said = process.stderr.read().decode()
    assert "wrong 0" in printed.read_text()
    if stage == ("profile",):
        assert process.returncode == 0, said
        assert "have no time and are not in the table" in said


def test_a_stage_that_is_stopped_in_the_middle_of_a_capture_holds_the_program_no_longer_than_asked(
    stages, program, large_mib
):
    printed = stages.folder / "printed"
    app = program("large")
    process = start(stages, app, large_mib, options=("--wait", 5, "--app-stdout", printed))
    wait_until_captured_in_part(stages, process)
    process.send_signal(signal.SIGSTOP)
    program_ends = os.pidfd_open(process_of(stages, app))
    try:
        assert select.select([program_ends], [], [], 60)[0], "the program waits for the stage"
    finally:
        process.send_signal(signal.SIGCONT)
    os.close(program_ends)
    _, err = process.communicate(timeout=LIMIT_S)
    assert "done 1" in printed.read_text()
    assert process.returncode == ExitCode.DEVICE, err
    assert "the collector took no more data" in err
    assert Store.open(stages.store).list_artifacts() == []
